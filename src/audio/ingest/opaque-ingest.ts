import type { Ingest } from './ingest.ts';

/** Takes one message of an unknown format, as it came; those that were held while nobody knew come first. */
export type OpaqueSink = (message: Buffer, atMs: number) => void;

/** Bytes that no decoder takes: handed on as they are. */
export class OpaqueIngest implements Ingest {
  readonly #sink: OpaqueSink;

  constructor(sink: OpaqueSink) {
    this.#sink = sink;
  }

  push(message: Buffer, atMs: number): void {
    this.#sink(message, atMs);
  }

  /** Each message stands for itself. */
  skip(): void {}

  close(): void {}
}
