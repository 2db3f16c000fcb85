import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../../src/audio/format.ts';
import {
  countEntries,
  ENTRIES,
  type Entry,
  hearEntries,
  sayForEntries,
} from '../../support/entries.ts';
import { hearBehindRouter } from '../../support/behind-router.ts';
import { SENDERS, type Sender, sayTrack } from '../../support/senders.ts';
import { SimulatedRoom, soundOf, streamOf } from '../../support/simulated-room.ts';
import { opusTone } from '../../support/sound.ts';
import { rmsOf, spokenTrack, type Track } from '../../support/speech.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };

let codecs: Codecs;
let track: Track;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  track = await spokenTrack({ words: 5, pauseMs: 700 });
});

const { pcm, browser, celt, long } = SENDERS;
const senders = [pcm, browser, celt, long].map((sender): [string, Sender] => [sender.name, sender]);

describe.each(senders)('in the middle of a word of %s', (_, sender) => {
  let said: Awaited<ReturnType<typeof sayForEntries>>;
  beforeAll(async () => {
    said = await sayForEntries(codecs, sender, track);
  });

  test.each(ENTRIES.map((entry): [string, Entry] => [entry.name, entry]))(
    '%s: the rest of it is heard as it was said',
    async (_name, entry) => {
      const errors = await hearEntries(codecs, entry, said);
      const { lateMs, ...counts } = countEntries(errors);
      expect(counts).toMatchObject({ words: 5, loud3: 0, soft: 0, missing: 0 });
      // A speaker whose packets did not come before is withheld for 120 ms more, in CELT for 60 ms.
      const isAbsent =
        entry.muted === 'away' || entry.muted === 'elsewhere' || entry.isOnNewNode === true;
      const absentMs = sender === browser || sender === long ? 120 : 60;
      const waitMs = 30 + (sender.packetMs ?? 20);
      expect(lateMs.most).toBeLessThan(isAbsent ? absentMs + waitMs : waitMs);
    },
  );
});

test.each(senders)(
  'behind the router, in the middle of a word of %s: a legacy client that is unmuted, and a listener that is new, as it was said',
  async (_, sender) => {
    const said = await sayForEntries(codecs, sender, track);
    for (const entry of ['unmuted', 'new'] as const) {
      const errors = await hearBehindRouter(codecs, entry, said);
      expect(countEntries(errors)).toMatchObject({ loud3: 0, soft: 0, missing: 0 });
    }
  },
);

describe('a speaker that is muted in the middle of a word, and unmuted in the next pause', () => {
  const hearings: [string, AudioFormat, Delivery][] = [
    ['as samples', PCM, 'mix'],
    ['as sent', OPUS, 'mix'],
    ['apart', OPUS, 'forward'],
  ];

  test.each(hearings)('heard %s: nothing of the rest of the word', async (_, format, delivery) => {
    const { arrivals, words } = await sayTrack(codecs, 'a', browser, track);
    const [first, second] = words;
    const middleMs = (first!.fromSample + first!.samples / 2) / 48;
    const endMs = (first!.fromSample + first!.samples) / 48;
    // In the next packet after the word it is heard again.
    const said = arrivals.map((arrival) => {
      const isMuted = arrival.atMs > middleMs && arrival.atMs < endMs + 40;
      return { ...arrival, isMuted };
    });
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', format, delivery);
    await room.play(said.filter(({ atMs }) => atMs < second!.fromSample / 48 - 100));
    room.mixer.close();
    const levelOf = (fromMs: number, untilMs: number) =>
      levelBetween(pieces, Math.round(fromMs * 48), Math.round(untilMs * 48));
    const pieces = await soundOf(codecs, heard);
    expect(levelOf(middleMs - 60, middleMs)).toBeGreaterThan(-40);
    // Sound from before the mute may be heard that much later.
    expect(levelOf(middleMs + 80, endMs + 400)).toBeLessThan(-60);
  });
});

test.each([
  ['sends on while it is muted', (isMuted: boolean) => ({ isMuted, isSent: true })],
  ['sends nothing while it is muted', (isMuted: boolean) => ({ isMuted, isSent: !isMuted })],
])(
  'a muted browser that changes to the WebSocket, %s, and is unmuted there: it is heard at once',
  async (_, sentOf) => {
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', OPUS);
    room.mixer.setMuted('a', true, room.nowMs);
    room.mixer.cutSpeaker('a');
    room.mixer.setMuted('a', false, room.nowMs, true);
    const said = streamOf('a', await opusTone(525, 0.3, 600));
    const arrivals = said.map((arrival) => ({ ...arrival, ...sentOf(arrival.atMs < 300) }));
    await room.play(arrivals.filter(({ isSent }) => isSent));
    room.mixer.close();
    // At the first tick after the unmute, and nothing of what was said before.
    expect(heard.framesAtMs[0]).toBeGreaterThanOrEqual(300);
    expect(heard.framesAtMs[0]).toBeLessThanOrEqual(310);
  },
);

/** Returns packets that hold several frames of 20 ms each (RFC 6716 §3.2.5, code 3). */
function inPackets(packets: Buffer[], frames: number): Buffer[] {
  if (frames === 1) return packets;
  const starts = packets.map((_, i) => i).filter((i) => i % frames === 0);
  return starts.map((start) => {
    const bodies = packets.slice(start, start + frames).map((packet) => packet.subarray(1));
    const lengths = bodies.slice(0, -1).map(({ length }) => length);
    return Buffer.concat([
      Buffer.from([packets[0]![0]! | 3, 0x80 | frames, ...lengths]),
      ...bodies,
    ]);
  });
}

describe('a browser on another node', () => {
  const said = async () => streamOf('a', await opusTone(525, 0.3, 1000));

  test.each([
    ['20', 1],
    ['120', 6],
  ])(
    'the states of a mute and its end come late, while it talks again in packets of %s ms: nothing is withheld',
    async (_, frames) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', PCM);
      const arrivals = streamOf('a', inPackets(await opusTone(525, 0.3, 960), frames));
      for (const [untilMs, isMuted] of [
        [300, true],
        [600, false],
      ] as const) {
        await room.play(
          arrivals.splice(
            0,
            arrivals.findIndex(({ atMs }) => atMs >= untilMs),
          ),
        );
        room.mixer.setMutedElsewhere('a', isMuted, room.nowMs);
      }
      await room.play(arrivals);
      room.mixer.close();
      const gapsMs = heard.framesAtMs.slice(1).map((atMs, i) => atMs - heard.framesAtMs[i]!);
      expect(gapsMs.length).toBeGreaterThan(40);
      expect(Math.max(...gapsMs)).toBeLessThan(60);
    },
  );

  test('the state of the unmute comes in a pause, 120 ms before the next word: nothing of the word is withheld', async () => {
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', OPUS);
    const arrivals = await said();
    await room.play(arrivals.filter(({ atMs }) => atMs < 200));
    room.mixer.setMutedElsewhere('a', true, room.nowMs);
    await room.passTo(480);
    room.mixer.setMutedElsewhere('a', false, room.nowMs);
    const framesBefore = heard.frames.length;
    const again = arrivals.filter(({ atMs }) => atMs >= 600);
    await room.play(
      again.map((arrival, i) => ({
        ...arrival,
        packet: { ...arrival.packet, sequenceNumber: 10 + i },
      })),
    );
    room.mixer.close();
    expect(heard.framesAtMs[framesBefore]).toBeLessThanOrEqual(640);
  });
});

type Piece = { fromSample: number; sound: Float32Array };

/** The level of what is heard from one sample to another, in dBov. */
function levelBetween(pieces: Piece[], from: number, until: number): number {
  const parts = pieces.map(({ fromSample, sound }) =>
    sound.subarray(Math.max(0, from - fromSample), Math.max(0, until - fromSample)),
  );
  const power = parts.reduce((sum, part) => sum + rmsOf(part) ** 2 * part.length, 0);
  return 10 * Math.log10(power / (until - from) + 1e-12);
}
