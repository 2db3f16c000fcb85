import { FANS, hearOverFans } from '../../test/support/fans.ts';
import { hearBesideNoises, NOISES, NOISES_OF, sayTalkers } from '../../test/support/places.ts';
import { head, row, type Setting } from './setting.ts';

const NOISES_DB = [-50, -45, -40, -35];
const WORDS = 20;
const MOST_SOFT_MS = 40;

/**
 * Reports the share of words of a speaker at -26 dBov that is heard beside eight open microphones with steady
 * noise.
 */
export async function reportNoise({ codecs, openRoom, print, signal }: Setting): Promise<void> {
  print(head(`speech at -26 dBov beside ${FANS} steady noises at`, 'words heard', 'heard whole'));
  for (const noiseDb of NOISES_DB) {
    signal.throwIfAborted();
    const errors = await hearOverFans(codecs, noiseDb, { words: WORDS, openRoom });
    const found = errors.filter(({ isMissing }) => !isMissing);
    const whole = found.filter(({ softMs }) => softMs < MOST_SOFT_MS);
    print(row(`${noiseDb} dBov`, `${found.length} of ${errors.length}`, whole.length));
  }
}

/** Reports how the places in a mix change while three people talk beside eight steady noises; of all levels of the noises the worst. */
export async function reportPlaces({ print, signal }: Setting): Promise<void> {
  const columns = [
    'words at each level',
    'mixed after, at most (goal: 200 ms)',
    'words cut (goal: 0)',
    'changes a minute, at most',
    'begin or end a minute',
  ];
  print(head(`three talkers beside ${NOISES} noises at ${NOISES_DB.join(', ')} dBov`, ...columns));
  const talkers = await sayTalkers();
  for (const [name, levelsAt] of Object.entries(NOISES_OF)) {
    signal.throwIfAborted();
    const heard = NOISES_DB.map((noiseDb) => hearBesideNoises(levelsAt(noiseDb), talkers));
    const all = heard.flatMap(({ words }) => words);
    const lateMs = Math.max(...all.map(({ mixedAtMs, beginsMs }) => mixedAtMs - beginsMs));
    const cut = all.filter(({ cuts }) => cuts > 0).length;
    const { words, minutes } = heard[0]!;
    const changes = Math.max(...heard.map((each) => each.changes)) / minutes;
    const begun = (2 * (words.length + NOISES)) / minutes;
    const cells = [words.length, `${lateMs.toFixed(0)} ms`, cut, changes.toFixed(0)];
    print(row(name, ...cells, begun.toFixed(0)));
  }
}
