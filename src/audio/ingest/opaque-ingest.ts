import type { Ingest } from './ingest.ts';

/** Receives one message of an unknown format, unchanged; messages that were held during the detection come first. */
export type OpaqueSink = (message: Buffer, atMs: number) => void;

/** Ingest of bytes that are not decoded: hands them on unchanged. */
export class OpaqueIngest implements Ingest {
  readonly #sink: OpaqueSink;

  constructor(sink: OpaqueSink) {
    this.#sink = sink;
  }

  push(message: Buffer, atMs: number): void {
    this.#sink(message, atMs);
  }

  /** Has no effect: messages are independent. */
  skip(): void {}

  close(): void {}
}
