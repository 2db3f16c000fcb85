/** Types of the functions of speex_resampler.h that are used, on pointers into its memory; the package ships no types. */
declare module '@echogarden/speex-resampler-wasm' {
  export type SpeexResampler = {
    HEAPF32: Float32Array;
    HEAPU32: Uint32Array;
    _malloc(bytes: number): number;
    _free(pointer: number): void;
    _speex_resampler_init(
      channels: number,
      fromHz: number,
      toHz: number,
      quality: number,
      errorPointer: number,
    ): number;
    _speex_resampler_skip_zeros(state: number): number;
    _speex_resampler_process_float(
      state: number,
      channel: number,
      inputPointer: number,
      inputCountPointer: number,
      outputPointer: number,
      outputCountPointer: number,
    ): number;
    _speex_resampler_destroy(state: number): void;
  };
  export default function load(): Promise<SpeexResampler>;
}
