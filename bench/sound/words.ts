import { compareWords, reportWords, type WordError } from '../../test/support/heard-words.ts';
import {
  SENDERS,
  SENDERS_BY_LENGTH,
  SENDERS_IN_CONTAINERS,
  SENDERS_OF_FILES,
  SENDERS_OF_SAMPLES,
  type Sender,
  sayTrack,
} from '../../test/support/senders.ts';
import { soundOf } from '../../test/support/simulated-room.ts';
import { spokenTrack, type Track } from '../../test/support/speech.ts';
import {
  ERROR_COLUMNS,
  errorCells,
  head,
  HEARINGS,
  isAsSaid,
  row,
  type Setting,
  VOICES,
} from './setting.ts';

const PAUSES_MS = [300, 1000, 3000];
/** Pause longer than the hold time of talk, and than the part of a stream that is kept, ms. */
const LONG_PAUSE_MS = 30_000;
const FEW_WORDS = 4;
const NOISE_DB = -50;

/** Senders that share a row, each of which says all tracks. */
type Group = { name: string; senders: Sender[]; tracks: Track[] };

/**
 * Reports the beginnings of words as each kind of listener hears them: of the senders of issue 19 from two voices, after pauses of four
 * lengths, in quiet and in noise; from packets of other lengths, and from other formats, with one voice.
 */
export async function reportBeginnings(setting: Setting): Promise<void> {
  const tracks = await sayTracks();
  await reportGroups(setting, [...groupsOfSenders(tracks), ...groupsOfOthers(tracks)]);
}

/** Reports the beginnings of words of the senders of issue 19 only. */
export async function reportBeginningsOfFew(setting: Setting): Promise<void> {
  await reportGroups(setting, groupsOfSenders(await sayTracks()));
}

async function sayTracks(): Promise<Track[]> {
  const options = VOICES.flatMap((voice) => PAUSES_MS.map((pauseMs) => ({ voice, pauseMs })));
  const tracks: Track[] = [];
  for (const option of options) tracks.push(await spokenTrack(option));
  tracks.push(await spokenTrack({ pauseMs: LONG_PAUSE_MS, words: FEW_WORDS }));
  tracks.push(await spokenTrack({ pauseMs: PAUSES_MS[1]!, noiseDb: NOISE_DB }));
  return tracks;
}

const groupsOfSenders = (tracks: Track[]): Group[] =>
  Object.values(SENDERS).map((sender) => ({ name: sender.name, senders: [sender], tracks }));

/** Returns the name of a sender without the length of its packets. */
const formatOf = ({ name }: Sender) => name.replace(/, [\d.]+ ms$/, '');

function groupsOfOthers(tracks: Track[]): Group[] {
  const [firstTwo, second] = [tracks.slice(0, 2), tracks.slice(1, 2)];
  const formats = [...new Set(SENDERS_BY_LENGTH.map(formatOf))];
  const byLength = formats.map((format) => {
    const senders = SENDERS_BY_LENGTH.filter((sender) => formatOf(sender) === format);
    return { name: `${format}, ${senders.length} other lengths`, senders, tracks: firstTwo };
  });
  const samples = {
    name: `${SENDERS_OF_SAMPLES.length} other formats of samples`,
    senders: SENDERS_OF_SAMPLES,
    tracks: second,
  };
  const files = [...SENDERS_IN_CONTAINERS, ...SENDERS_OF_FILES].map((sender) => ({
    name: sender.name,
    senders: [sender],
    tracks: second,
  }));
  return [...byLength, samples, ...files];
}

async function reportGroups({ print, ...setting }: Setting, groups: Group[]): Promise<void> {
  const heard = HEARINGS.map(({ name }) => name).join(' / ');
  print(head(`words sent as; heard ${heard}`, 'words', ...ERROR_COLUMNS, 'goals missed by'));
  for (const { name, senders, tracks } of groups) {
    const errors: WordError[][] = HEARINGS.map(() => []);
    const missedBy: string[] = [];
    for (const sender of senders) {
      const ofSender = await hearWords(setting, sender, tracks);
      for (const [i, some] of ofSender.entries()) errors[i]!.push(...some);
      if (!ofSender.every((some) => isAsSaid(reportWords(some)))) missedBy.push(sender.name);
    }
    print(
      row(name, errors[0]!.length, ...errorCells(errors.map(reportWords)), missedBy.join(', ')),
    );
  }
}

/** Returns the errors of all words, for each kind of listener. */
async function hearWords(
  { codecs, openRoom, signal }: Omit<Setting, 'print'>,
  sender: Sender,
  tracks: Track[],
): Promise<WordError[][]> {
  const errors: WordError[][] = HEARINGS.map(() => []);
  for (const track of tracks) {
    const { arrivals, reference, words } = await sayTrack(codecs, 'a', sender, track);
    for (const [i, { format, delivery }] of HEARINGS.entries()) {
      signal.throwIfAborted();
      const room = openRoom(['a']);
      const heard = room.listen('x', format, delivery);
      await room.play(arrivals);
      room.mixer.close();
      errors[i]!.push(...compareWords(reference, await soundOf(codecs, heard), words));
    }
  }
  return errors;
}
