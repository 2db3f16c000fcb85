import loadSpeex from '@echogarden/speex-resampler-wasm';

/** Resampler of one mono stream (samples -1…1), buffer by buffer: it keeps the past samples that its filter needs. */
export type Resampler = {
  /**
   * Returns the samples at the new rate: as many as the ratio of the rates gives, to within one, but for 40 fewer (at the lower rate) in the first
   * call.
   */
  process(samples: Float32Array): Float32Array;
  close(): void;
};

export type ResamplerFactory = (fromHz: number, toHz: number) => Resampler;

/** Quality of the filter, 0…10; at 5, aliases are below the noise of 16 bits. */
const QUALITY = 5;
const BYTES_PER_FLOAT = 4;

/**
 * Loads the Speex resampler (WebAssembly).
 * @param load loads the WebAssembly module
 */
export async function loadResampler(load = loadSpeex): Promise<ResamplerFactory> {
  const speex = await load();
  const allocate = (bytes: number): number => {
    const address = speex._malloc(bytes);
    if (address === 0) throw new Error(`no memory for ${bytes} bytes of the resampler`);
    return address;
  };
  return (fromHz, toHz) => {
    const lengths = allocate(2 * BYTES_PER_FLOAT);
    const state = speex._speex_resampler_init(1, fromHz, toHz, QUALITY, lengths);
    const error = speex.HEAPU32[lengths >> 2];
    if (state === 0 || error !== 0) {
      speex._free(lengths);
      throw new Error(`the resampler from ${fromHz} to ${toHz} Hz did not open: ${error}`);
    }
    // Drops the silence that the delay of the filter puts before the first sample.
    speex._speex_resampler_skip_zeros(state);
    let isClosed = false;
    return {
      process: (samples) => {
        // The freed memory may belong to another resampler by now.
        if (isClosed) throw new Error('the resampler is closed');
        const capacity = Math.ceil((samples.length * toHz) / fromHz) + 16;
        const input = allocate((samples.length + capacity) * BYTES_PER_FLOAT);
        const output = input + samples.length * BYTES_PER_FLOAT;
        speex.HEAPF32.set(samples, input >> 2);
        speex.HEAPU32[lengths >> 2] = samples.length;
        speex.HEAPU32[(lengths >> 2) + 1] = capacity;
        speex._speex_resampler_process_float(state, 0, input, lengths, output, lengths + 4);
        const written = speex.HEAPU32[(lengths >> 2) + 1] ?? 0;
        const resampled = speex.HEAPF32.slice(output >> 2, (output >> 2) + written);
        speex._free(input);
        return resampled;
      },
      close: () => {
        if (isClosed) return;
        isClosed = true;
        speex._speex_resampler_destroy(state);
        speex._free(lengths);
      },
    };
  };
}
