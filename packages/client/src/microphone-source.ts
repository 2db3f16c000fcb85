/** Rates of microphones, Hz: those of Bluetooth headsets are 8 to 32 kHz while their microphone is in use. */
const RATES_HZ = [48_000, 44_100, 96_000, 192_000, 88_200, 32_000, 24_000, 22_050, 16_000, 8000];

export type MicrophoneSource = { context: AudioContext; source: MediaStreamAudioSourceNode };

/**
 * Opens a source of a microphone's audio, in a context of its own. In Firefox a context takes audio of its own
 * rate only, and a track may not tell its rate.
 * @throws {DOMException} the browser takes the audio at no rate
 */
export function openSource(track: MediaStreamTrack): MicrophoneSource {
  const { sampleRate } = track.getSettings();
  let refusal: unknown;
  // Undefined is the rate of the speakers.
  for (const rateHz of new Set([undefined, sampleRate, ...RATES_HZ])) {
    let context: AudioContext | undefined;
    try {
      context = new AudioContext(rateHz === undefined ? {} : { sampleRate: rateHz });
      return { context, source: context.createMediaStreamSource(new MediaStream([track])) };
    } catch (error) {
      void context?.close();
      if (!isOfOtherRate(error)) throw error;
      refusal = error;
    }
  }
  throw refusal;
}

/** True if a context refuses audio, or a browser a context, because of its rate. */
export const isOfOtherRate = (error: unknown): boolean =>
  error instanceof DOMException && error.name === 'NotSupportedError';
