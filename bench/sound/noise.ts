import type { Codecs } from '../../src/audio/codecs.ts';
import { FANS, hearOverFans } from '../../test/support/fans.ts';
import { head, row } from './setting.ts';

const NOISES_DB = [-50, -45, -40, -35];
const WORDS = 20;
const MOST_SOFT_MS = 40;

/**
 * Reports the share of words of a speaker at -26 dBov that is heard beside eight open microphones with steady
 * noise.
 */
export async function reportNoise(
  codecs: Codecs,
  print: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  print(head(`speech at -26 dBov beside ${FANS} steady noises at`, 'words heard', 'heard whole'));
  for (const noiseDb of NOISES_DB) {
    signal.throwIfAborted();
    const errors = await hearOverFans(codecs, noiseDb, WORDS);
    const found = errors.filter(({ isMissing }) => !isMissing);
    const whole = found.filter(({ softMs }) => softMs < MOST_SOFT_MS);
    print(row(`${noiseDb} dBov`, `${found.length} of ${errors.length}`, whole.length));
  }
}
