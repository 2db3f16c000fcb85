import { FRAME_MS } from '../format.ts';
import type { EncoderLibrary } from './libopus.ts';

/** Shared library, and the constants of opus_defines.h that are used: an application mode and requests of opus_encoder_ctl(). */
const SONAME = 'libopus.so.0';
const OPUS_APPLICATION_RESTRICTED_LOWDELAY = 2051;
const OPUS_SET_BITRATE = 4002;
const OPUS_SET_COMPLEXITY = 4010;
const OPUS_SET_VBR_CONSTRAINT = 4020;
const OPUS_SET_PREDICTION_DISABLED = 4042;

/** Maximum length of a packet of one frame, bytes (RFC 6716 §3.2.1). */
const MAX_PACKET_BYTES = 1276;

/** Pointer to the state of an encoder, as koffi represents it. */
type State = bigint;

/**
 * Loads the encoder of the machine's own libopus, which is called without intermediate copies; its code is built for the processor of the
 * machine. It receives only samples, never bytes of a client.
 * @throws {Error} if libopus is not installed
 */
export async function loadNativeLibopus(soname = SONAME): Promise<EncoderLibrary> {
  const { default: koffi } = await import('koffi');
  const library = koffi.load(soname);
  // TypeScript cannot derive types from koffi's signature strings, so each is stated twice.
  const versionString = library.func('str opus_get_version_string()') as () => string;
  const describe = library.func('str opus_strerror(int)') as (code: number) => string;
  const createEncoder = library.func('void *opus_encoder_create(int, int, int, _Out_ int *)') as (
    rateHz: number,
    channels: number,
    application: number,
    code: [number],
  ) => State | null;
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

  /** Returns a result of libopus. @throws {Error} if it is an error code (negative) */
  const check = (result: number): number => {
    if (result < 0) throw new Error(`libopus: ${describe(result)}`);
    return result;
  };
  // The output is read before the next call; each thread has its own buffer.
  const packetBytes = new Uint8Array(MAX_PACKET_BYTES);

  return {
    name: versionString(),
    async openEncoder({ rateHz, bitrateBps, complexity }) {
      const frameSamples = (rateHz * FRAME_MS) / 1000;
      const code: [number] = [0];
      let encoder = createEncoder(rateHz, 1, OPUS_APPLICATION_RESTRICTED_LOWDELAY, code);
      check(code[0]);
      /** @throws {Error} after close(), when the encoder's memory has been freed */
      const open = (): State => {
        if (encoder === null) throw new Error('libopus: used after it was closed');
        return encoder;
      };
      const set = (request: number, value: number) => check(control(open(), request, 'int', value));
      const close = () => {
        if (encoder !== null) destroyEncoder(encoder);
        encoder = null;
      };
      try {
        set(OPUS_SET_BITRATE, bitrateBps);
        set(OPUS_SET_COMPLEXITY, complexity);
      } catch (fault) {
        close();
        throw fault;
      }
      return {
        encode: (frame) => {
          if (frame.length !== frameSamples) {
            throw new RangeError(`A frame has ${frameSamples} samples, not ${frame.length}.`);
          }
          const bytes = check(
            encodeFloat(open(), frame, frameSamples, packetBytes, packetBytes.length),
          );
          return Buffer.from(packetBytes.subarray(0, bytes));
        },
        setComplexity: (wanted) => set(OPUS_SET_COMPLEXITY, wanted),
        setBitrateBounded: (isBounded) => set(OPUS_SET_VBR_CONSTRAINT, isBounded ? 1 : 0),
        setPrediction: (isEnabled) => set(OPUS_SET_PREDICTION_DISABLED, isEnabled ? 0 : 1),
        close,
      };
    },
  };
}
