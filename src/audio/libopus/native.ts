import { FRAME_MS, SAMPLE_RATE_HZ } from '../format.ts';
import type { Libopus } from './libopus.ts';

/** What of opus.h and opus_defines.h is called. */
const SONAME = 'libopus.so.0';
const OPUS_APPLICATION_RESTRICTED_LOWDELAY = 2051;
const OPUS_SET_BITRATE = 4002;
const OPUS_SET_COMPLEXITY = 4010;
const OPUS_SET_PREDICTION_DISABLED = 4042;

/** 120 ms at 48 kHz, as long as a packet can be. */
const MAX_PACKET_SAMPLES = 5760;
/** RFC 6716 §3.4: the most that a frame can take. */
const MAX_FRAME_BYTES = 1275;

/** A pointer to the state of an encoder or decoder. */
type State = object;

/**
 * The machine's own libopus, called without a copy in between; its code is made for the processor it runs on.
 * @throws {Error} if the machine has none
 */
export async function loadNativeLibopus(soname = SONAME): Promise<Libopus> {
  const { default: koffi } = await import('koffi');
  const library = koffi.load(soname);
  // koffi knows the signatures only when it runs; the types repeat them.
  const versionString = library.func('str opus_get_version_string()') as () => string;
  const describe = library.func('str opus_strerror(int)') as (code: number) => string;
  const createEncoder = library.func('void *opus_encoder_create(int, int, int, _Out_ int *)') as (
    rateHz: number,
    channels: number,
    application: number,
    code: [number],
  ) => State;
  const control = library.func('int opus_encoder_ctl(void *, int, ...)') as (
    encoder: State,
    request: number,
    type: 'int',
    value: number,
  ) => number;
  const encodeFloat = library.func('int opus_encode_float(void *, void *, int, void *, int)') as (
    encoder: State,
    frame: Float32Array,
    samples: number,
    packet: Uint8Array,
    maxBytes: number,
  ) => number;
  const destroyEncoder = library.func('void opus_encoder_destroy(void *)') as (e: State) => void;
  const createDecoder = library.func('void *opus_decoder_create(int, int, _Out_ int *)') as (
    rateHz: number,
    channels: number,
    code: [number],
  ) => State;
  const decodeFloat = library.func(
    'int opus_decode_float(void *, void *, int, void *, int, int)',
  ) as (
    decoder: State,
    packet: Uint8Array | null,
    bytes: number,
    samples: Float32Array,
    maxSamples: number,
    fromNext: 0 | 1,
  ) => number;
  const destroyDecoder = library.func('void opus_decoder_destroy(void *)') as (d: State) => void;

  /** @throws {Error} if libopus says that it failed; else what it says */
  const check = (result: number): number => {
    if (result < 0) throw new Error(`libopus: ${describe(result)}`);
    return result;
  };
  const created = (state: State | null, [code]: [number]): State => {
    check(code);
    if (!state) throw new Error('libopus: out of memory');
    return state;
  };
  // Both are read before the next call; a thread has its own.
  const packetBytes = new Uint8Array(MAX_FRAME_BYTES);
  const decoded = new Float32Array(MAX_PACKET_SAMPLES);

  return {
    name: versionString(),
    async openEncoder({ rateHz, bitrateBps, complexity }) {
      const frameSamples = (rateHz * FRAME_MS) / 1000;
      const code: [number] = [0];
      const application = OPUS_APPLICATION_RESTRICTED_LOWDELAY;
      const encoder = new Owned(
        created(createEncoder(rateHz, 1, application, code), code),
        destroyEncoder,
      );
      const set = (request: number, value: number) =>
        check(control(encoder.state, request, 'int', value));
      set(OPUS_SET_BITRATE, bitrateBps);
      set(OPUS_SET_COMPLEXITY, complexity);
      return {
        encode: (frame) => {
          if (frame.length !== frameSamples) {
            throw new RangeError(`A frame has ${frameSamples} samples, not ${frame.length}.`);
          }
          const { state } = encoder;
          const bytes = check(
            encodeFloat(state, frame, frameSamples, packetBytes, packetBytes.length),
          );
          return Buffer.from(packetBytes.subarray(0, bytes));
        },
        setComplexity: (wanted) => set(OPUS_SET_COMPLEXITY, wanted),
        setPrediction: (isEnabled) => set(OPUS_SET_PREDICTION_DISABLED, isEnabled ? 0 : 1),
        close: () => encoder.close(),
      };
    },
    async openDecoder() {
      const code: [number] = [0];
      const decoder = new Owned(
        created(createDecoder(SAMPLE_RATE_HZ, 1, code), code),
        destroyDecoder,
      );
      const decode = (packet: Uint8Array | null, maxSamples: number, fromNext: 0 | 1) => {
        if (packet?.length === 0) throw new RangeError('An Opus packet has at least one byte.');
        if (maxSamples > MAX_PACKET_SAMPLES) throw new RangeError('That is more than 120 ms.');
        const { state } = decoder;
        const bytes = packet?.length ?? 0;
        const samples = check(decodeFloat(state, packet, bytes, decoded, maxSamples, fromNext));
        return decoded.slice(0, samples);
      };
      return {
        decode: (packet) => decode(packet, MAX_PACKET_SAMPLES, 0),
        recover: (next, samples) => decode(next, samples, 1),
        conceal: (samples) => decode(null, samples, 0),
        close: () => decoder.close(),
      };
    },
  };
}

/** Memory of libopus: freed once, and not used after that. */
class Owned {
  readonly #free: (state: State) => void;
  #state: State | undefined;

  constructor(state: State, free: (state: State) => void) {
    this.#state = state;
    this.#free = free;
  }

  /** @throws {Error} after close() */
  get state(): State {
    if (!this.#state) throw new Error('libopus: used after it was closed');
    return this.#state;
  }

  close(): void {
    if (!this.#state) return;
    this.#free(this.#state);
    this.#state = undefined;
  }
}
