import { describe, expect, test } from 'vitest';
import { counters } from '../../../../src/counters.ts';
import { ListenerLeads } from '../../../../src/audio/mixing/listener-leads.ts';
import { RoomSpeaker } from '../../../../src/audio/mixing/room-speaker.ts';
import type { Delivery } from '../../../../src/audio/format.ts';
import type { Listener } from '../../../../src/audio/mixing/subscriptions.ts';

const PACKET_MS = 20;
const PACKET = Buffer.alloc(80, 0x55).fill(0xf8, 0, 1);
/** Head of a frame that is forwarded apart. */
const HEAD_BYTES = 4;

/** Opens a speaker with two listeners: one with `delivery=mix`, and one with `delivery=forward`, which hears all speakers apart. */
function openSpeaker() {
  const speaker = new RoomSpeaker(1, 'a', 1, new ListenerLeads());
  const sent: { atMs: number; isEmpty: boolean }[] = [];
  const apart: Buffer[] = [];
  let [nowMs, lost] = [0, 0];
  const listener = (delivery: Delivery, deliver: (frame: Buffer) => void): Listener => ({
    peer: 'b',
    format: { codec: 'opus' },
    delivery,
    volume: {},
    deliver,
    concealed: () => {},
  });
  speaker.followers = new Set([
    listener('mix', ({ length }) => sent.push({ atMs: nowMs, isEmpty: length === 1 })),
  ]);
  speaker.apartFollowers = new Set([listener('forward', (frame) => apart.push(frame))]);
  const forward = () => speaker.forward(false, nowMs, () => void (lost += 1));
  /** Lets the packets come that are not missing, each at its time, and a tick 6 ms after each. */
  const run = (packets: number, isMissing: (number: number) => boolean) => {
    for (let number = 0; number < packets; number += 1) {
      nowMs = number * PACKET_MS;
      const packet = {
        sequenceNumber: number,
        timestamp: nowMs * 48,
        marker: false,
        audioLevel: 20,
        payload: PACKET,
      };
      if (!isMissing(number)) speaker.insert(packet, nowMs);
      forward();
      nowMs += 6;
      forward();
    }
    return lost;
  };
  return { speaker, sent, apart, run };
}

test.each([1, 2, 3, 4])('%i missing packets are all concealed', (missing) => {
  const { sent, apart, run } = openSpeaker();
  const lost = run(100, (number) => number >= 50 && number < 50 + missing);
  expect(lost).toBe(missing);
  expect(sent.filter(({ isEmpty }) => isEmpty)).toHaveLength(missing);
  expect(sent).toHaveLength(100);
  expect(apart).toHaveLength(100);
});

test('where every third packet is missing each of them is concealed', () => {
  const { sent, run } = openSpeaker();
  expect(run(100, (number) => number % 3 === 1 && number < 95)).toBe(32);
  expect(sent).toHaveLength(100);
});

test.each([8, 20, 24])(
  'a gap of %i packets that listeners have heard already is not heard again behind it',
  (missing) => {
    const { speaker, sent, apart, run } = openSpeaker();
    const lost = run(100, (number) => number >= 50 && number < 50 + missing);
    const backAtMs = (50 + missing) * PACKET_MS;
    const behind = sent.filter(({ atMs }) => atMs >= backAtMs);
    const passedMs = behind.at(-1)!.atMs - backAtMs;
    expect(behind.length * PACKET_MS - passedMs).toBeLessThanOrEqual(120);
    // The end of the gap is concealed, so that the word goes on softly.
    expect(behind.findIndex(({ isEmpty }) => !isEmpty)).toBe(4);
    expect(lost).toBe(4);
    expect(apart.filter(({ length }) => length === HEAD_BYTES + 1)).toHaveLength(4);
    // Decoders that begin later are given the whole gap.
    expect(speaker.recent.length).toBeGreaterThanOrEqual(9);
  },
);

describe('packets that come while listeners have more than 400 ms to play', () => {
  const AHEAD_MS = 800;

  test('are sent to nobody, and a lost one among them is not reported as concealed', () => {
    const { speaker, sent, apart, run } = openSpeaker();
    const dropped = counters.dropped.too_fast;
    speaker.apart.add(AHEAD_MS * 48, 0);
    expect(run(20, (number) => number === 10)).toBe(0);
    expect([...sent, ...apart]).toEqual([]);
    expect(counters.dropped.too_fast - dropped).toBeGreaterThanOrEqual(19);
  });

  test('are counted if they come in a mix that ends before it reaches them', () => {
    const { speaker, sent, run } = openSpeaker();
    const [listeners, dropped] = [speaker.apartFollowers, counters.dropped.too_fast];
    speaker.isPlayed = true;
    speaker.apartFollowers = new Set();
    run(3, () => false);
    expect(counters.dropped.too_fast).toBe(dropped);
    speaker.isPlayed = false;
    speaker.apartFollowers = listeners;
    speaker.apart.add(AHEAD_MS * 48, 3 * PACKET_MS);
    speaker.endPlaying(new Set(), 3 * PACKET_MS);
    expect(sent).toEqual([]);
    expect(counters.dropped.too_fast - dropped).toBe(3);
  });
});

describe('a stream that began before its packets come here', () => {
  /** Time since which packets would have come here, and that of the first one, ms. */
  const [sinceMs, firstMs] = [1000, 5010];
  /** Lets ten packets come, and counts those that only warm decoders up. */
  const withheld = (speaker: RoomSpeaker, isCelt = true) => {
    speaker.enterStream(sinceMs);
    const atMs = Array.from({ length: 10 }, (_, number) => firstMs + number * PACKET_MS);
    return atMs.filter((nowMs) => speaker.staysWithheld(nowMs * 48, isCelt, nowMs)).length;
  };

  test('is heard at once if its packets might have come here for a while: it begins after a pause', () => {
    expect(withheld(new RoomSpeaker(1, 'a', 1, new ListenerLeads()))).toBe(0);
  });

  test.each([
    ['CELT', 10, 60],
    ['SILK', 10, 120],
    ['CELT', 50, 40],
    ['CELT', 80, 40],
    ['SILK', 80, 40],
    ['CELT', 119, 40],
    ['CELT', 120, 0],
    ['SILK', 120, 0],
  ])(
    'warms decoders up if it was unmuted elsewhere just now, in %s, %i ms before its first packet: for %i ms',
    (codec, sinceUnmuteMs, warmUpMs) => {
      const speaker = new RoomSpeaker(1, 'a', 1, new ListenerLeads());
      speaker.setMutedElsewhere(true, sinceMs, false);
      speaker.setMutedElsewhere(false, firstMs - sinceUnmuteMs, false);
      expect(withheld(speaker, codec === 'CELT')).toBe(warmUpMs / PACKET_MS);
    },
  );
});
