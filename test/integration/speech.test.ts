import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../src/audio/codecs.ts';
import { type AudioFormat, type Delivery, formatAudioFormat } from '../../src/audio/format.ts';
import type { TestClient } from '../support/client.ts';
import { countEntries, sayForEntries } from '../support/entries.ts';
import {
  compareEntry,
  compareWords,
  type HeardPiece,
  reportWords,
} from '../support/heard-words.ts';
import { HEARD_WITHIN_MS, OPUS, PCM, speak, undisturbed } from '../support/listening.ts';
import { messagesOf, SENDERS, sayTrack } from '../support/senders.ts';
import { soundOf } from '../support/simulated-room.ts';
import { spokenTrack, type Track } from '../support/speech.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Words that are spoken through a gateway in real time (in virtual time: test/unit/audio/spoken-words.test.ts). */

const { connect, enter } = useGateway({ RESUME_MS: '15000' });

/** No word begins more than 3 dB louder than it was sent, or for 40 ms more than 6 dB softer. */
const AS_SENT = { loud3: 0, soft: 0, missing: 0 };

const LISTENERS: { format: AudioFormat; delivery: Delivery }[] = [
  { format: PCM, delivery: 'mix' },
  { format: OPUS, delivery: 'mix' },
  { format: OPUS, delivery: 'forward' },
];

const { pcm, browser, celt } = SENDERS;
type Said = Awaited<ReturnType<typeof sayTrack>> & { messages: Buffer[]; audio: string };
type Recording = ReturnType<typeof record>;

/** First word that is compared: by then the gateway has taken back what it held for the hiccup at the beginning (`speak`). */
const FIRST_WORD = 2;
/** Word in the middle of which a listener vanishes, and the position in it. */
const CUT_WORD = 3;
const AT_SHARE = 0.3;
/** Time after which it is back, ms: more counts like a stall, in which too little of the word is left. */
const MOST_AWAY_MS = 100;
const FRAME_SAMPLES = 960;
/** Sound that a player holds for when frames are late. */
const PLAYER_SAMPLES = 9600;

let codecs: Codecs;
let track: Track;
let senders: Said[];
let ofRooms: Recording[][];
let ofResumed: { before: Recording; after: Recording };
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  track = await spokenTrack({ words: 6, pauseMs: 900 });
  senders = await Promise.all(
    [pcm, browser, celt].map(async (sender) => ({
      ...(await sayTrack(codecs, 'speaker', sender, track)),
      messages: await messagesOf(codecs, sender, track.sound),
      audio: formatAudioFormat(sender.format),
    })),
  );
  // Each in a room of its own, all at once.
  [ofRooms, ofResumed] = await undisturbed((number, note) =>
    Promise.all([
      Promise.all(senders.map((said, i) => hearAll(`words ${i} ${number}`, said))),
      hearResumed(`resumed ${number}`, senders[1]!, note),
    ]),
  );
});

/** Records what a client hears from now on, and when. */
function record(
  client: TestClient,
  listener: (typeof LISTENERS)[number],
  startMs = performance.now(),
) {
  const recording = { listener, frames: [] as Buffer[], framesAtMs: [] as number[] };
  client.onFrame = (frame) => {
    recording.frames.push(frame);
    recording.framesAtMs.push(performance.now() - startMs);
  };
  return recording;
}

const enterToHear = async (room: string, listener: (typeof LISTENERS)[number]) => {
  const { format, delivery } = listener;
  const query = { room, audio: formatAudioFormat(format), delivery };
  const peer = `${query.audio} ${delivery} ${room}`;
  return { listener, peer, client: await enter(peer, query) };
};

async function hearAll(room: string, { messages, audio }: Said): Promise<Recording[]> {
  const speaker = await enter(`speaker ${room}`, { room, audio });
  const clients = await Promise.all(LISTENERS.map((each) => enterToHear(room, each)));
  const recordings = clients.map(({ client, listener }) => record(client, listener));
  await speak(speaker, messages);
  return recordings;
}

/** Lets a listener vanish in the middle of a word, and come back at once. */
async function hearResumed(
  room: string,
  { messages, audio, words }: Said,
  note: (waitedMs: number) => void,
) {
  const { fromSample, samples } = words[CUT_WORD]!;
  const lastPacket = messages[Math.floor((fromSample + AT_SHARE * samples) / FRAME_SAMPLES)]!;
  const speaker = await enter(`speaker ${room}`, { room, audio });
  const { client, peer, listener } = await enterToHear(room, LISTENERS[1]!);
  const { session_id, resume_token } = await client.next('welcome');
  const startMs = performance.now();
  const before = record(client, listener, startMs);
  const spoken = speak(speaker, messages);
  const isInWord = () => client.frames.at(-1)?.equals(lastPacket) || undefined;
  await client.until('the middle of a word', isInWord, HEARD_WITHIN_MS);
  client.vanish();
  const vanishedAtMs = performance.now();
  const again = await connect({ peer, session_id, resume_token });
  const after = record(again, listener, startMs);
  await again.next('welcome', 0, HEARD_WITHIN_MS);
  note(performance.now() - vanishedAtMs - MOST_AWAY_MS);
  await spoken;
  return { before, after };
}

test('words said as PCM and Opus, heard as PCM, as Opus and apart: each begins as it was said', async () => {
  const reports = [];
  for (const [i, recordings] of ofRooms.entries()) {
    const { reference, words, audio } = senders[i]!;
    for (const recording of recordings) {
      const errors = compareWords(
        reference,
        await soundOf(codecs, recording, 0, PLAYER_SAMPLES),
        words.slice(FIRST_WORD),
      );
      const { format, delivery } = recording.listener;
      reports.push({ audio, heard: format.codec, delivery, ...reportWords(errors) });
    }
  }
  expect(reports).toMatchObject(reports.map(() => AS_SENT));
});

test('a listener that vanishes in the middle of a word and resumes: the rest of it, and the other words, as they were said', async () => {
  const { references, reference, words } = await sayForEntries(codecs, browser, track);
  const { fromSample, samples } = words[CUT_WORD]!;
  const before = await soundOf(codecs, ofResumed.before, 0, PLAYER_SAMPLES);
  const after = await soundOf(codecs, ofResumed.after, 0, PLAYER_SAMPLES);
  const reportOf = (heard: HeardPiece[], some: Track['words']) =>
    reportWords(compareWords(reference, heard, some));
  const skipped = Math.round(AT_SHARE * samples);
  const rest = { fromSample: fromSample + skipped, samples: samples - skipped };
  expect({
    before: reportOf(before, words.slice(FIRST_WORD, CUT_WORD)),
    rest: countEntries([compareEntry(references, after, rest)]),
    after: reportOf(after, words.slice(CUT_WORD + 1)),
  }).toMatchObject({ before: AS_SENT, rest: AS_SENT, after: AS_SENT });
});
