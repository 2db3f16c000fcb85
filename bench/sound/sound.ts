import { loadCodecs } from '../../src/audio/codecs.ts';
import { reportEntries } from './entries.ts';
import { reportLoss } from './loss.ts';
import { reportNoise } from './noise.ts';
import { reportSwitches } from './switches.ts';
import { reportSpectrum } from './spectrum.ts';
import { reportBeginnings } from './words.ts';

/**
 * Compares spoken words (espeak-ng, sox), as a room in virtual time delivers them, with the sender's own
 * stream decoded whole: the beginnings of words, words that a listener joins in the middle, a speaker that
 * continues while another begins and ends (also with music), speech beside steady noise, lost packets, and
 * the spectrum of the whole chain.
 */
export async function reportSound(
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  await reportBeginnings(codecs, print, signal);
  await reportEntries(codecs, print, signal);
  await reportSwitches(codecs, print, signal);
  await reportNoise(codecs, print, signal);
  await reportLoss(codecs, print, signal);
  await reportSpectrum(codecs, print, signal);
}
