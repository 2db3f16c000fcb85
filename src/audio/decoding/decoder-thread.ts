import type { EventLoopUtilization } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import { noteShortage } from '../../resources.ts';
import type { DecodedSound, FrameCodec } from './frame-codecs.ts';

export type DecoderOrder =
  | {
      order: 'decode';
      id: number;
      codec: FrameCodec;
      /** Head with which the stream begins again. */
      head?: Uint8Array | undefined;
      frames: Uint8Array[];
    }
  | { order: 'close'; id: number };
export type DecoderAnswer = DecodedSound & { id: number };

/** Opens decoders. */
export type FrameDecoders = { open(codec: FrameCodec): FrameDecoder };

/** Decoder of one stream. */
export type FrameDecoder = {
  /** Begins the stream again, with the head that its codec needs before frames; the caller must await the previous result first. */
  begin(head: Uint8Array): void;
  /**
   * Decodes the frames that follow the previous ones; the caller must await the result before the next call.
   * @throws {Error} if the decoder crashes or hangs, or no thread can be started
   */
  decode(frames: Uint8Array[]): Promise<DecodedSound>;
  close(): void;
};

type Job = {
  frames: Uint8Array[];
  resolve: (sound: DecodedSound) => void;
  reject: (fault: Error) => void;
};
type Stream = {
  codec: FrameCodec;
  job: Job | undefined;
  head: Uint8Array | undefined;
  /** Thread that has received the head. */
  headedIn: Worker | undefined;
};

const PROGRAM = new URL('./decoder-thread-main.ts', import.meta.url);
/** Interval at which a busy thread is checked, ms. */
const CHECK_MS = 500;
/**
 * Checks without an answer after which the thread counts as hung. Checks are counted instead of milliseconds,
 * so that a stall of this process does not look like one of the thread.
 */
const MAX_SILENT_CHECKS = 20;
/** Maximum heap of the thread, MB, without the memory of WebAssembly. */
const MAX_HEAP_MB = 128;
/** Stands for the head of a job that needs none. */
const NO_HEAD = new Uint8Array();
/** Maximum number of jobs in the thread, so that it seldom waits for the event loop; the others wait for their account's turn. */
const MAX_POSTED_JOBS = 4;

/**
 * A worker thread in which compressed audio is decoded, so that a slow file or a crashing decoder delays only
 * the streams that are decoded there. Each stream has at most one job, and accounts with jobs take turns.
 * The thread starts with the first job and ends with the last stream.
 */
export class DecoderThread {
  readonly #program: URL;
  readonly #checkMs: number;
  readonly #streams = new Map<number, Stream>();
  /** Streams whose job is in the thread, in the order in which it executes them. */
  #busy: number[] = [];
  /** Streams of each account whose job waits for its turn, in the order of the accounts' turns. */
  readonly #waiting = new Map<number | undefined, number[]>();
  #nextId = 1;
  #worker: Worker | undefined;
  #checks: NodeJS.Timeout | undefined;
  #silentChecks = 0;
  /** True once the thread has loaded its program, which takes a while on a busy machine. */
  #isReady = false;
  /** Utilization of the thread at the last sample. */
  #utilization: EventLoopUtilization | undefined;

  constructor(program = PROGRAM, checkMs = CHECK_MS) {
    this.#program = program;
    this.#checkMs = checkMs;
  }

  /** Number of streams that are open. */
  get size(): number {
    return this.#streams.size;
  }

  /** Returns the share of the time since the last call, or since the start of the thread, in which the thread was busy. */
  sampleBusyShare(): number {
    const performance = this.#worker?.performance;
    if (!performance) return 0;
    const before = this.#utilization;
    this.#utilization = performance.eventLoopUtilization();
    if (!before) return this.#utilization.utilization;
    return performance.eventLoopUtilization(this.#utilization, before).utilization;
  }

  /** Returns decoders that take their turns as those of one account. */
  ofAccount(account: number): FrameDecoders {
    return { open: (codec) => this.open(codec, account) };
  }

  open(codec: FrameCodec, account?: number): FrameDecoder {
    const id = this.#nextId;
    this.#nextId += 1;
    const stream: Stream = { codec, job: undefined, head: undefined, headedIn: undefined };
    this.#streams.set(id, stream);
    return {
      begin: (head) => {
        stream.head = head;
        stream.headedIn = undefined;
      },
      decode: (frames) =>
        new Promise((resolve, reject) => {
          if (this.#streams.get(id) !== stream) throw new Error('the decoder is closed');
          // Throws if the system has no thread left.
          this.#worker ??= this.#start();
          stream.job = { frames, resolve, reject };
          this.#wait(id, account);
          this.#postNext();
        }),
      close: () => this.#close(id),
    };
  }

  #close(id: number): void {
    if (!this.#streams.delete(id)) return;
    this.#worker?.postMessage({ order: 'close', id } satisfies DecoderOrder);
    if (this.#streams.size > 0) return;
    const worker = this.#worker;
    this.#worker = undefined;
    this.#busy = [];
    this.#waiting.clear();
    this.#watch();
    void worker?.terminate();
  }

  #start(): Worker {
    // Complaints of the libraries about a client's bytes do not belong in the log.
    const worker = new Worker(this.#program, {
      name: 'decoder',
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    });
    worker.stdout.resume();
    worker.stderr.resume();
    worker.unref();
    let reason = 'it ended';
    this.#isReady = false;
    this.#utilization = undefined;
    worker.on('message', (message: 'ready' | DecoderAnswer) => {
      if (this.#worker !== worker) return;
      if (message === 'ready') this.#isReady = true;
      else this.#receive(message);
    });
    worker.on('error', (fault) => {
      reason = String(fault);
    });
    worker.on('exit', () => {
      if (this.#worker === worker) this.#restart(reason);
    });
    return worker;
  }

  #wait(id: number, account: number | undefined): void {
    const others = this.#waiting.get(account);
    if (others) others.push(id);
    else this.#waiting.set(account, [id]);
  }

  /** Posts jobs while the thread has few; the account of each is the last to have a turn again. */
  #postNext(): void {
    for (const [account, ids] of this.#waiting) {
      if (this.#busy.length >= MAX_POSTED_JOBS) return;
      const id = ids.shift()!;
      this.#waiting.delete(account);
      if (ids.length > 0) this.#waiting.set(account, ids);
      const stream = this.#streams.get(id);
      if (!stream) continue;
      this.#busy.push(id);
      this.#post(id, stream);
    }
  }

  #post(id: number, stream: Stream): void {
    const { codec, job } = stream;
    if (!job) return;
    const isHeaded = stream.headedIn === this.#worker;
    const head = isHeaded || !stream.head ? undefined : stream.head;
    stream.headedIn = this.#worker;
    const [headCopy, ...frames] = copiesOf([head ?? NO_HEAD, ...job.frames]);
    const order: DecoderOrder = { order: 'decode', id, codec, head: head && headCopy, frames };
    this.#worker?.postMessage(order, [headCopy!.buffer]);
    this.#watch();
  }

  #receive({ id, samples, rateHz, faults }: DecoderAnswer): void {
    this.#silentChecks = 0;
    this.#busy = this.#busy.filter((busy) => busy !== id);
    this.#postNext();
    this.#watch();
    const stream = this.#streams.get(id);
    const job = stream?.job;
    if (!stream || !job) return;
    stream.job = undefined;
    job.resolve({ samples, rateHz, faults });
  }

  /** Handles a thread that ended during the first job: its stream is given up, the others continue in another thread. */
  #restart(reason: string): void {
    this.#worker = undefined;
    this.#silentChecks = 0;
    const [first, ...others] = this.#busy;
    const culprit = first === undefined ? undefined : this.#streams.get(first);
    if (first !== undefined) this.#streams.delete(first);
    this.#busy = others.filter((id) => this.#streams.has(id));
    culprit?.job?.reject(new Error(`the decoder thread: ${reason}`));
    try {
      if (this.#busy.length > 0 || this.#waiting.size > 0) this.#worker = this.#start();
    } catch (fault) {
      this.#giveUp(fault);
    }
    for (const id of this.#busy) this.#post(id, this.#streams.get(id)!);
    this.#postNext();
    this.#watch();
  }

  /** Ends every stream with a job, because no thread can be started. */
  #giveUp(fault: unknown): void {
    noteShortage(fault);
    for (const [id, { job }] of this.#streams) {
      if (!job) continue;
      this.#streams.delete(id);
      job.reject(new Error('the decoder thread cannot be started', { cause: fault }));
    }
    this.#busy = [];
    this.#waiting.clear();
  }

  /** Checks the thread at intervals while it has a job. */
  #watch(): void {
    if (this.#busy.length === 0) {
      clearInterval(this.#checks);
      this.#checks = undefined;
      this.#silentChecks = 0;
      return;
    }
    this.#checks ??= setInterval(() => {
      if (this.#isReady) this.#silentChecks += 1;
      if (this.#silentChecks >= MAX_SILENT_CHECKS) void this.#worker?.terminate();
    }, this.#checkMs).unref();
  }
}

/**
 * Copies pieces of bytes into one new ArrayBuffer, to be transferred. A piece that is posted as it is takes its whole ArrayBuffer with
 * it, such as the 64 KB of Node's pool; one ArrayBuffer for each piece takes longer.
 */
function copiesOf(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer>[] {
  const whole = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  return pieces.map((piece) => {
    whole.set(piece, at);
    at += piece.length;
    return whole.subarray(at - piece.length, at);
  });
}
