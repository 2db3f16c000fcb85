import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import type { AudioFormat, Delivery } from '../../../../src/audio/format.ts';
import { opusPacketSamples } from '../../../../src/audio/opus-packet.ts';
import { RtpBudget } from '../../../../src/bridge/rtp-budget.ts';
import { compareWords, reportWords, type WordError } from '../../../support/heard-words.ts';
import { SENDERS, type Sender, sayTrack } from '../../../support/senders.ts';
import {
  type Arrival,
  type Heard,
  SimulatedRoom,
  soundOf,
  streamOf,
} from '../../../support/simulated-room.ts';
import { encodeOpus, tone } from '../../../support/sound.ts';
import { spokenTrack, type Word } from '../../../support/speech.ts';

/** Packets of browsers, WHIP clients and other nodes that come faster than real time, and what listeners to Opus are sent of them. */

const OPUS: AudioFormat = { codec: 'opus' };
const FRAME_MS = 20;
const FORWARD_HEAD_BYTES = 4;
/** Most that another node holds and sends at once. */
const HELD_MS = 400;
const STALL_MS = 2000;

/** Opus clients with each delivery, and a WHEP player, which takes packets of up to 20 ms only. */
const LISTENERS: [string, Delivery, boolean][] = [
  ['delivery=mix', 'mix', false],
  ['delivery=forward', 'forward', false],
  ['WHEP', 'mix', true],
];

let codecs: Codecs;
let sounding: Buffer[];
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  sounding = await encodeOpus(tone(300, 0.2, 2000));
});

function openRoom(delivery: Delivery, takesShortOnly: boolean, speakers = ['a']) {
  const room = new SimulatedRoom(codecs, speakers, 0, true);
  const heard = room.prepare('x', OPUS, delivery);
  Object.assign(heard.listener, { takesShortOnly });
  room.mixer.addListener(heard.listener);
  return { room, heard };
}

/** Returns how long each frame has to wait in a player that plays all frames of a speaker one after another, ms. */
function waitsOf({ frames, framesAtMs, listener: { delivery } }: Heard): number[] {
  const endsAtMs = new Map<string, number>();
  return frames.map((frame, i) => {
    const headBytes = delivery === 'forward' ? FORWARD_HEAD_BYTES : 0;
    const speaker = frame.toString('hex', 0, headBytes);
    const atMs = framesAtMs[i]!;
    const beginsAtMs = Math.max(atMs, endsAtMs.get(speaker) ?? 0);
    endsAtMs.set(speaker, beginsAtMs + opusPacketSamples(frame.subarray(headBytes))! / 48);
    return beginsAtMs - atMs;
  });
}

describe.each(LISTENERS)('a sender that is too fast, heard with %s', (_, delivery, isWhep) => {
  /** Sends packets, of which the budget lets pass what it does to a room. */
  function openSender(room: SimulatedRoom, peer = 'a') {
    const budget = new RtpBudget(5000, 0);
    let number = 0;
    return (audioLevel = 15) => {
      const payload = sounding[number % sounding.length]!;
      const packet = {
        sequenceNumber: number & 0xffff,
        timestamp: number * FRAME_MS * 48,
        marker: false,
        audioLevel,
        payload,
      };
      number += 1;
      expect(budget.charge(FRAME_MS * 48, payload.length, room.nowMs)).toBe('pass');
      room.mixer.receive(peer, packet, room.nowMs);
    };
  }

  test.each([
    ['loud', 15],
    ['soft', 70],
  ])(
    '9 s within 50 ms, %s: listeners are sent less than 0.45 s of them at once',
    async (_name, level) => {
      const { room, heard } = openRoom(delivery, isWhep);
      const send = openSender(room);
      for (let i = 0; i < 50; i += 1, await room.pause(FRAME_MS)) send();
      // A soft one comes once nobody talks any more.
      for (let i = 0; i < 40; i += 1, await room.pause(FRAME_MS)) send(level);
      for (let i = 0; i < 450; i += 1, await room.pause(0.1)) send(level);
      for (let i = 0; i < 100; i += 1, await room.pause(FRAME_MS)) send(level);
      room.mixer.close();
      const waitsMs = waitsOf(heard);
      expect(Math.max(...waitsMs)).toBeGreaterThan(200);
      expect(Math.max(...waitsMs)).toBeLessThan(450);
      expect(room.faults).toEqual([]);
    },
  );

  test('1.23 times real time for a minute: listeners are sent no more than 1.02 times', async () => {
    const { room, heard } = openRoom(delivery, isWhep);
    const send = openSender(room);
    for (; room.nowMs < 60_000; await room.pause(FRAME_MS / 1.23)) send();
    room.mixer.close();
    expect(heard.frames.length * FRAME_MS).toBeLessThan(60_000 * 1.02);
    expect(Math.max(...waitsOf(heard))).toBeLessThan(450);
  });

  test('bursts of two speakers by turns: nothing adds up', async () => {
    const { room, heard } = openRoom(delivery, isWhep, ['a', 'b']);
    const sends = [openSender(room, 'a'), openSender(room, 'b')];
    for (let i = 0; i < 4500; i += 1, await room.pause(FRAME_MS)) {
      const send = sends[Math.floor(i / 150) % 2]!;
      send();
      if (i % 150 === 75) for (let more = 0; more < 50; more += 1) send();
    }
    room.mixer.close();
    expect(Math.max(...waitsOf(heard))).toBeLessThan(1000);
  });
});

test.each(LISTENERS)(
  `${HELD_MS} ms that another node held at the beginning are all sent with %s`,
  async (_name, delivery, isWhep) => {
    const { room, heard } = openRoom(delivery, isWhep);
    const stream = streamOf('a', sounding);
    await room.play(stream.map((each) => ({ ...each, atMs: Math.max(each.atMs, HELD_MS) })));
    room.mixer.close();
    const headBytes = delivery === 'forward' ? FORWARD_HEAD_BYTES : 0;
    const sent = heard.frames.map((frame) => frame.toString('hex', headBytes));
    expect(sent).toEqual(sounding.map((payload) => payload.toString('hex')));
  },
);

describe.each<Delivery>(['mix', 'forward'])(
  'a second listener with delivery=%s, which hears a speaker in a mix from the middle of a word on',
  (delivery) => {
    /** Duration of a word, and that of the quiet sound at its end, which counts as talk, ms. */
    const [WORD_MS, QUIET_MS] = [4000, 400];

    test('leaves the packets of a sender in time as they are for the first one', async () => {
      const room = new SimulatedRoom(codecs, ['a'], 0, true);
      const first = room.listen('y', OPUS, 'forward');
      const payloads = await encodeOpus(tone(300, 0.2, WORD_MS));
      const loud = payloads.length - QUIET_MS / FRAME_MS;
      const stream = streamOf('a', payloads).map((arrival, i) =>
        i < loud ? arrival : { ...arrival, packet: { ...arrival.packet, audioLevel: 60 } },
      );
      await room.play(stream.slice(0, 50));
      const second = room.listen('x', OPUS, delivery);
      await room.play(stream.slice(50));
      room.mixer.close();
      const sent = first.frames.map((frame) => frame.toString('hex', FORWARD_HEAD_BYTES));
      expect(sent).toEqual(payloads.map((payload) => payload.toString('hex')));
      expect(second.frames.length).toBeGreaterThan(140);
    });
  },
);

describe.each([['browser'], ['celt'], ['long']] as const)('a phone, as %s', (name) => {
  // A WHEP player hears packets of 60 ms in a mix anyway.
  const listeners = LISTENERS.filter(([, , isWhep]) => !(isWhep && name === 'long'));
  let said: Awaited<ReturnType<typeof sayTrack>>;
  beforeAll(async () => {
    const sender: Sender = SENDERS[name];
    said = await sayTrack(codecs, 'a', sender, await spokenTrack({ words: 16, pauseMs: 700 }));
  });

  /** Returns the packets with a stall of the network, at whose end those come that were sent in it. */
  function stalled(fromMs: number, stallMs: number): Arrival[] {
    const toMs = fromMs + stallMs;
    const isHeld = ({ atMs }: Arrival) => atMs >= fromMs && atMs < toMs;
    // All within a millisecond, and in order.
    return said.arrivals.map((arrival) =>
      isHeld(arrival) ? { ...arrival, atMs: toMs - (toMs - arrival.atMs) / stallMs } : arrival,
    );
  }

  /** Compares words that may be heard up to 1 s late. */
  async function compareLate(heard: Heard, words: Word[]): Promise<WordError[]> {
    const pieces = await soundOf(codecs, heard);
    const byLag = [0, 300, 600, 900].map((lagMs) => {
      const sooner = pieces.map(({ fromSample, sound }) => ({
        fromSample: fromSample - lagMs * 48,
        sound,
      }));
      return compareWords(said.reference, sooner, words);
    });
    const badness = ({ isMissing, loudestDb, softMs }: WordError) =>
      isMissing ? Infinity : Math.max(0, loudestDb) + softMs;
    return words.map((_, i) => {
      const errors = byLag.map((ofWords) => ofWords[i]!);
      return errors.toSorted((one, other) => badness(one) - badness(other))[0]!;
    });
  }

  test.each(listeners)(
    `whose network stalls for ${STALL_MS} ms is live again soon with %s, and nothing else is lost`,
    async (_, delivery, isWhep) => {
      const { room, heard } = openRoom(delivery, isWhep);
      const stallFromMs = said.words[4]!.fromSample / 48 + 60;
      const stallToMs = stallFromMs + STALL_MS;
      await room.play(stalled(stallFromMs, STALL_MS));
      room.mixer.close();
      const waitsMs = waitsOf(heard);
      expect(Math.max(...waitsMs)).toBeLessThan(450);
      const live = waitsMs.filter((_wait, i) => heard.framesAtMs[i]! > stallToMs + 6000);
      expect(live.length).toBeGreaterThan(50);
      expect(Math.max(...live)).toBeLessThan(100);
      const isHeard = ({ fromSample, samples }: Word) =>
        (fromSample + samples) / 48 < stallFromMs || fromSample / 48 > stallToMs + 300;
      const errors = await compareLate(heard, said.words.filter(isHeard));
      const report = reportWords(errors);
      expect(report).toMatchObject({ loud3: 0, missing: 0 });
      // Before a packet that is left out a word's beginning is heard 20 ms sooner than its middle.
      expect(report.soft).toBeLessThanOrEqual(1);
    },
  );

  test('whose first silence comes at once, and is sent to nobody: apart, nothing after it is left out', async () => {
    const { room, heard } = openRoom('forward', false);
    room.listen('y', { codec: 'pcmu', rateHz: 8000, channels: 1 });
    await room.play(stalled(60, 300));
    room.mixer.close();
    const sent = heard.frames.map((frame) => frame.toString('hex', FORWARD_HEAD_BYTES));
    const all = said.arrivals.map(({ packet }) => packet.payload.toString('hex'));
    const first = all.findIndex((payload) => sent.includes(payload));
    expect(sent.slice(sent.indexOf(all[first]!))).toEqual(all.slice(first));
  });

  test.each(listeners)(
    'whose network stalls for 300 ms is live again soon with %s, and no word is lost',
    async (_, delivery, isWhep) => {
      const { room, heard } = openRoom(delivery, isWhep);
      const stallFromMs = said.words[4]!.fromSample / 48 + 60;
      await room.play(stalled(stallFromMs, 300));
      room.mixer.close();
      const waitsMs = waitsOf(heard);
      expect(Math.max(...waitsMs)).toBeGreaterThan(200);
      const live = waitsMs.filter((_wait, i) => heard.framesAtMs[i]! > stallFromMs + 6000);
      expect(live.length).toBeGreaterThan(50);
      expect(Math.max(...live)).toBeLessThan(100);
      const errors = await compareLate(heard, said.words);
      expect(reportWords(errors)).toMatchObject({ loud3: 0, missing: 0 });
    },
  );
});
