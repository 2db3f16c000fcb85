import { Worker } from 'node:worker_threads';
import type { JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { CodecSettings } from '../opus-codec.ts';
import {
  BatchWriter,
  type MixEvent,
  type MixBatch,
  type MixCommand,
  sliceReader,
} from './mix-batch.ts';
import type { MixBackend, MixEngine, TickReport } from './mix-engine.ts';
import type { MixOutput } from './mix-plan.ts';

/**
 * Time without an answer after which a thread counts as hung, ms: the sum of the gaps between messages to it, each counted as at most
 * {@link MAX_PAUSE_MS}.
 */
const MAX_SILENT_MS = 1000;
/** Maximum gap between two messages that counts in full, ms: in a longer one this thread itself may have been blocked. */
const MAX_PAUSE_MS = 100;

export type MixThreadEvents = {
  onFault: (fault: unknown) => void;
  /** Called when the thread has ended, by a fault or by {@link MixThread.close}. */
  onGone: (reason: string) => void;
};

type Client = { output: MixOutput; onTicked: (report: TickReport) => void };

/**
 * A worker thread in which rooms are mixed. The commands of one turn of the event loop go in one message, and the thread answers each
 * message with one. Packets alone are not sent: they wait for the next message.
 */
export class MixThread implements MixBackend {
  readonly kind = 'thread';
  readonly #worker: Worker;
  readonly #commands = new BatchWriter<MixCommand>();
  readonly #clients = new Map<number, Client>();
  readonly #onFault: (fault: unknown) => void;
  #nextRoom = 1;
  #isFlushing = false;
  #isReady = false;
  #unanswered = 0;
  #silentMs = 0;
  #lastPostAtMs = 0;
  #reason = 'it was closed';
  loadMs = 0;

  constructor(codecSettings: CodecSettings, { onFault, onGone }: MixThreadEvents) {
    this.#onFault = onFault;
    this.#worker = new Worker(new URL('./mix-thread-main.ts', import.meta.url), {
      workerData: codecSettings,
      name: 'mix',
    });
    this.#worker.on('message', (message: 'ready' | MixBatch<MixEvent>) => {
      if (message === 'ready') this.#isReady = true;
      else this.#receive(message);
    });
    this.#worker.on('error', (fault) => {
      this.#reason = String(fault);
    });
    this.#worker.on('exit', () => {
      this.#isReady = false;
      onGone(this.#reason);
    });
  }

  get threadId(): number {
    return this.#worker.threadId;
  }

  /** True once its codecs are open. */
  get isReady(): boolean {
    return this.#isReady;
  }

  openRoom(
    limits: JitterBufferLimits,
    output: MixOutput,
    onTicked: (report: TickReport) => void,
  ): MixEngine {
    const room = this.#nextRoom;
    this.#nextRoom += 1;
    this.#clients.set(room, { output, onTicked });
    this.#post({ command: 'open', room, limits });
    return {
      apply: (plan) => {
        const added = plan.added.map((speaker) => ({
          ...speaker,
          recent: speaker.recent.map((packet) => this.#commands.slice(packet)),
        }));
        this.#post({ command: 'apply', room, plan: { ...plan, added } });
      },
      // A packet is not used before the next tick.
      insert: (speaker, packet, atMs) => {
        const payload = this.#commands.slice(packet.payload);
        this.#commands.add({
          command: 'insert',
          room,
          speaker,
          packet: { ...packet, payload },
          atMs,
        });
      },
      tick: (nowMs, movedMs, isSkipped = false) =>
        this.#post({ command: 'tick', room, nowMs, movedMs, isSkipped }),
      close: () => {
        this.#clients.delete(room);
        this.#post({ command: 'close', room });
      },
    };
  }

  setComplexity(complexity: number): void {
    this.#post({ command: 'set complexity', complexity });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  /** Batches the commands of one turn of the event loop. */
  #post(command: MixCommand): void {
    this.#commands.add(command);
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#isFlushing = false;
    const batch = this.#commands.take();
    this.#worker.postMessage(batch, [batch.bytes.buffer]);
    const nowMs = performance.now();
    if (this.#unanswered > 0) {
      this.#silentMs += Math.min(nowMs - this.#lastPostAtMs, MAX_PAUSE_MS);
    }
    this.#unanswered += 1;
    this.#lastPostAtMs = nowMs;
    if (this.#silentMs < MAX_SILENT_MS) return;
    this.#silentMs = 0;
    this.#reason = `it did not answer for ${MAX_SILENT_MS} ms`;
    this.#worker.terminate().catch(this.#onFault);
  }

  #receive(batch: MixBatch<MixEvent>): void {
    this.#unanswered -= 1;
    this.#silentMs = 0;
    const read = sliceReader(batch);
    for (const item of batch.items) {
      if (item.answer === 'fault') {
        this.#onFault(item.fault);
        continue;
      }
      // A room that has been closed here may still be mixed in the thread.
      const client = this.#clients.get(item.room);
      if (!client) continue;
      try {
        tell(client, item, read);
      } catch (fault) {
        // Other rooms wait for their share of the batch.
        this.#onFault(fault);
      }
    }
  }
}

function tell(
  { output, onTicked }: Client,
  item: Exclude<MixEvent, { answer: 'fault' }>,
  read: ReturnType<typeof sliceReader>,
): void {
  switch (item.answer) {
    case 'mixed':
      output.mixed(item.name, item.format, read(item.frame), performance.now());
      break;
    case 'passed':
      output.passed(item.speaker, read(item.packet), item.restSamples, performance.now());
      break;
    case 'concealed':
      output.concealed(item.speaker, item.samples);
      break;
    case 'paused':
      output.paused(item.speaker, item.why);
      break;
    case 'ticked':
      onTicked(item.report);
      break;
  }
}
