import { expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import {
  amplitudeOf,
  decodeOpus,
  joinPcm,
  opusTone,
  pcmTone,
  peakHz,
  play,
  toDb,
} from '../support/sound.ts';
import { undisturbed, untilHeard } from '../support/listening.ts';
import { useGateway } from '../support/use-gateway.ts';

const { enter, connect } = useGateway();

test('one speaker: its Opus packets reach the other peer untouched and in order', async () => {
  const [alice, bob] = [await enter('alice'), await enter('bob')];
  const packets = await opusTone(1000, 0.5, 1000);
  await play(alice, packets);
  await eventually('all packets', () => bob.frames.length === packets.length);
  expect(bob.frames).toEqual(packets);
  expect(alice.frames).toEqual([]);
  expect(peakHz(await decodeOpus(bob.frames))).toBe(1000);
});

test.each(['opus', 'pcm_s16le;rate=48000;channels=1'])(
  'a prompt of 200 ms (%s), sent right behind a join and before its answer: heard whole, and told of after it',
  async (audio) => {
    const bob = await enter('bob');
    const alice = await connect({ audio });
    const prompt = audio === 'opus' ? await opusTone(1000, 0.5, 200) : pcmTone(1000, 0.5, 200);
    alice.send({ type: 'join', room: 'a' });
    for (const message of prompt) alice.sendAudio(message);
    await eventually('all of it', () => bob.frames.length === prompt.length);
    expect(peakHz(await decodeOpus(bob.frames))).toBe(1000);
    await alice.next('speaking');
    expect(alice.messages.slice(0, 2).map(({ type }) => type)).toEqual(['welcome', 'joined']);
  },
);

test('sent right behind a join that is refused: dropped, and what follows a good one is heard', async () => {
  const bob = await enter('bob');
  const alice = await connect({ audio: 'opus' });
  const tone = await opusTone(1000, 0.5, 400);
  alice.send({ type: 'join', room: '' });
  for (const packet of tone) alice.sendAudio(packet);
  await alice.next('error');
  await alice.ask({ type: 'join', room: 'a' }, 'joined');
  await play(alice, tone);
  await eventually('all of it', () => bob.frames.length >= tone.length);
  expect(bob.frames).toEqual(tone);
});

test('two speakers: each hears the other untouched, a third hears both', async () => {
  const [low, high] = [await opusTone(440, 0.3, 2000), await opusTone(1500, 0.3, 2000)];
  const { bob, carol } = await undisturbed(async (number) => {
    const enterRoom = (peer: string) => enter(peer, { room: `two ${number}` });
    const [alice, listener] = [await enterRoom('alice'), await enterRoom('bob')];
    const third = await enterRoom('carol');
    await Promise.all([play(alice, low), play(listener, high)]);
    await untilHeard('nearly all', () =>
      [listener, third].every(({ frames }) => frames.length > 90),
    );
    return { bob: listener, carol: third };
  });
  const heardByBob = await decodeOpus(bob.frames.slice(30));
  expect(toDb(amplitudeOf(heardByBob, 440) / 0.3)).toBeGreaterThan(-1.5);
  expect(toDb(amplitudeOf(heardByBob, 1500) / 0.3)).toBeLessThan(-40);
  const heardByCarol = (await decodeOpus(carol.frames.slice(30))).slice(0, 48_000);
  expect(toDb(amplitudeOf(heardByCarol, 440) / 0.3)).toBeGreaterThan(-1.5);
  expect(toDb(amplitudeOf(heardByCarol, 1500) / 0.3)).toBeGreaterThan(-1.5);
});

test('PCM speakers: three of them each hear the two others, and never themselves', async () => {
  const audio = 'pcm_s16le;rate=48000;channels=1';
  const names = ['p1', 'p2', 'p3'];
  const tonesHz = [500, 900, 1700];
  const heardBy = await undisturbed(async (number) => {
    const peers: TestClient[] = [];
    for (const name of names) peers.push(await enter(name, { audio, room: `three ${number}` }));
    await Promise.all(peers.map((peer, i) => play(peer, pcmTone(tonesHz[i]!, 0.25, 2600))));
    await untilHeard('enough', () => peers.every(({ frames }) => frames.length * 960 >= 112_000));
    // Once the delay of each speaker has settled: code that runs for the first time is late.
    return peers.map(({ frames }) => joinPcm(frames).slice(64_000, 112_000));
  });
  for (const [i, heard] of heardBy.entries()) {
    for (const [j, toneHz] of tonesHz.entries()) {
      const levelDb = toDb(amplitudeOf(heard, toneHz) / 0.25);
      const [atLeastDb, atMostDb] = i === j ? [-Infinity, -40] : [-1.5, 1.5];
      expect(levelDb).toBeGreaterThanOrEqual(atLeastDb);
      expect(levelDb).toBeLessThanOrEqual(atMostDb);
    }
  }
});

test('delivery=forward: each speaker apart, with its number', async () => {
  const [alice, bob] = [await enter('alice'), await enter('bob')];
  const carol = await enter('carol', { delivery: 'forward' });
  const { peers } = await carol.next('joined');
  const [low, high] = [await opusTone(440, 0.3, 600), await opusTone(1500, 0.3, 600)];
  await Promise.all([play(alice, low), play(bob, high)]);
  await eventually('all frames', () => carol.frames.length === low.length + high.length);
  for (const [peer, packets] of [
    ['alice', low],
    ['bob', high],
  ] as const) {
    const speaker = peers.find((other) => other.peer === peer)?.speaker;
    const frames = carol.frames.filter((frame) => frame.readUInt16BE(2) === speaker);
    expect(frames.map((frame) => frame.subarray(4))).toEqual(packets);
    expect(frames.every((frame) => frame[0] === 1)).toBe(true);
  }
});

test.each([
  ['pcm_s16le;rate=8000;channels=1', 320],
  ['pcm_s16le;rate=44100;channels=2', 3528],
  ['pcm_f32le;rate=16000;channels=1', 1280],
  ['pcmu', 160],
  ['pcma', 160],
])('a peer on %s hears a frame of its own format every 20 ms', async (audio, bytes) => {
  const tone = await opusTone(1000, 0.5, 600);
  const frames = await undisturbed(async (number) => {
    const room = `legacy ${number}`;
    const [alice, legacy] = [
      await enter('alice', { room }),
      await enter('legacy', { audio, room }),
    ];
    await play(alice, tone);
    await untilHeard('nearly all', () => legacy.frames.length > 25);
    return legacy.frames;
  });
  const meanBytes = frames.reduce((sum, { length }) => sum + length, 0) / frames.length;
  expect(meanBytes / bytes).toBeCloseTo(1, 1);
});
