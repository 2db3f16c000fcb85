import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describe, expect, onTestFinished, test } from 'vitest';
import { counters } from '../../src/counters.ts';
import type { ServerMessage } from '../../src/protocol/messages.ts';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { findGlitches } from '../support/glitches.ts';
import { HEARD_WITHIN_MS, undisturbed, untilHeard } from '../support/listening.ts';
import { watchSlowness } from '../support/slowness.ts';
import { amplitudeOf, joinPcm, keepPlaying, opusTone, play, toDb } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

const inUse = useGateway({}, { sessions: { beatEveryMs: 100, statsEveryMs: 200 } });
const { keep, enter } = inUse;

const AMPLITUDE = 0.3;

/** Events of a room that a client is not told while it does not read, other than `speaking`. */
const isRoomEvent = ({ type }: ServerMessage) =>
  ['peer_joined', 'peer_left', 'peer_changed'].includes(type);

describe('a WebSocket client whose TCP stalls for 300 ms', () => {
  const TONE_HZ = 500;

  test('sound goes on afterwards, and is not heard later than before', async () => {
    const packets = await opusTone(TONE_HZ, AMPLITUDE, 6000);
    const { heard, droppedMs } = await undisturbed(async (number) => {
      const room = `stalls ${number}`;
      const [alice, bob] = [
        await enter('alice', { room, stats: 'true' }),
        await enter('bob', { room, audio_out: 'pcm_s16le;rate=48000;channels=1' }),
      ];
      await play(alice, packets.slice(0, 50));
      await new Promise((resolve) => setTimeout(resolve, 300));
      for (const packet of packets.slice(50, 65)) alice.sendAudio(packet);
      await play(alice, packets.slice(65));
      await untilHeard('all is heard', () => bob.frames.length >= 260);
      const stats = await alice.next('stats', alice.messages.length, HEARD_WITHIN_MS);
      return { heard: bob.frames, droppedMs: stats.dropped_ms };
    });
    const sound = joinPcm(heard).subarray(-96_000, -9600);
    expect(findGlitches(sound).filter(({ kind }) => kind === 'gap')).toEqual([]);
    expect(Math.abs(toDb(amplitudeOf(sound.subarray(0, 9600), TONE_HZ) / AMPLITUDE))).toBeLessThan(
      1.5,
    );
    expect(heard.length * 20 + droppedMs).toBeLessThan(6400);
  });
});

describe('a client that does not read for 2 s', () => {
  const FRAMES_OF_1_S = 50;
  const FRAMES_OF_WORD = 10;
  const PCM = 'pcm_s16le;rate=48000;channels=1';

  test('hears 1 s of the past at most, then what is said now, and is told the outcome of what happened', async () => {
    const measureSlowness = await watchSlowness();
    const stalls = monitorEventLoopDelay({ resolution: 5 });
    onTestFinished(() => void stalls.disable());
    const alice = await enter('alice');
    const listeners = [
      await enter('pcm', { audio_out: PCM, stats: 'true' }),
      await enter('opus'),
      await enter('forward', { delivery: 'forward' }),
    ];
    const query = { room: 'a', peer: 'mute', api_key: inUse.gateway.apiKey, audio: 'opus' };
    const unanswering = keep(
      await TestClient.connect(inUse.gateway.url, query, { autoPong: false }),
    );
    await unanswering.next('joined');
    const all = [...listeners, unanswering];
    const reading = await enter('reading');
    const packets = await opusTone(500, AMPLITUDE, 4000);
    await play(alice, packets.slice(0, 40));
    await eventually('all hear', () => all.every(({ frames }) => frames.length >= 30));
    const droppedBefore = counters.dropped.unread;
    stalls.enable();
    for (const client of all) client.stopReading();
    const playing = play(alice, packets.slice(40, 140));
    // More than one or two listeners lose before the third does.
    await eventually('all lose sound', () => counters.dropped.unread - droppedBefore >= 60);
    const bob = await enter('bob');
    const carol = await enter('carol');
    await bob.close();
    await carol.next('peer_left');
    const from = listeners[1]!.messages.length;
    const statsFrom = listeners[0]!.messages.length;
    listeners[1]!.send({ type: 'configure', id: 'asked', volume: { bob: 1 } });
    await playing;
    for (const client of all) client.readAgain();
    await play(alice, packets.slice(140));
    // Behind a pause all decoders can follow the packets again.
    const saidAt = reading.messages.length;
    await reading.until('alice pauses', () =>
      reading.messages
        .slice(saidAt)
        .find((told) => told.type === 'speaking' && told.peers.length === 0),
    );
    const word = packets.slice(0, FRAMES_OF_WORD);
    await play(alice, word);
    const last = word.at(-1)!;
    const hasEnded = ({ frames }: TestClient) => frames.at(-1)?.subarray(-last.length).equals(last);
    const ended = [...all.slice(1), reading];
    await eventually('the last packet', () => ended.every(hasEnded));
    stalls.disable();
    // Fewer than the 50 frames that must be missing, however slow the machine is.
    const stallFrames = stalls.max / 1e6 / 20;
    const lateFrames = Math.min(35, 15 * (await measureSlowness()) + stallFrames);
    for (const { frames } of listeners) {
      expect(frames.length).toBeLessThan(40 + FRAMES_OF_1_S + 60 + FRAMES_OF_WORD + lateFrames);
      expect(frames.length).toBeGreaterThan(40 + 30);
    }
    // It has never answered a ping, so that nobody knows that it did not read.
    expect(unanswering.frames).toEqual(reading.frames);
    const told = listeners[1]!.messages.slice(from);
    const joinedAt = told.findIndex(({ type }) => type === 'joined');
    // Reports of speakers may come from before the stall and from after it.
    expect(told.filter(({ type }) => type !== 'speaking')).toMatchObject([
      { type: 'configured', reply_to: 'asked' },
      { type: 'joined' },
    ]);
    expect(told[joinedAt + 1]).toMatchObject({ type: 'speaking' });
    const joined = await listeners[1]!.next('joined', from);
    expect(joined.peers.map(({ peer }) => peer).toSorted()).toEqual([
      'alice',
      'carol',
      'forward',
      'mute',
      'pcm',
      'reading',
    ]);
    expect(joined).not.toHaveProperty('reply_to');
    const queuedMs = () =>
      listeners[0]!.messages
        .slice(statsFrom)
        .flatMap((message) => (message.type === 'stats' ? message.send_queue_ms : []));
    await eventually('nothing waits', () => queuedMs().at(-1)! < 100);
    expect(Math.max(...queuedMs())).toBeGreaterThanOrEqual(500);
    expect(Math.max(...queuedMs())).toBeLessThanOrEqual(1000 + 20 * lateFrames);
  });

  test('is told, as a browser, of its consumers in place of what happened', async () => {
    const alice = await enter('alice');
    const browser = await inUse.connect({ peer: 'browser', stats: 'true' });
    await browser.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    await alice.next('peer_joined');
    const packets = await opusTone(500, AMPLITUDE, 1000);
    keep(keepPlaying(alice, packets));
    const { consumer_id } = await browser.next('new_consumer');
    const from = browser.messages.length;
    browser.stopReading();
    // The gateway pings a browser once a second; nobody sees when it finds the answer missing.
    const untilMs = performance.now() + 2500;
    const guests: string[] = [];
    while (performance.now() < untilMs || guests.length < 3) {
      const peer = `guest ${guests.length}`;
      guests.push(peer);
      const guest = await enter(peer);
      const seenFrom = alice.messages.length;
      await guest.close();
      await alice.next('peer_left', seenFrom);
    }
    const last = await enter('last');
    browser.readAgain();
    const joined = await browser.next('joined', from);
    expect(joined).not.toHaveProperty('reply_to');
    expect(joined.peers.map(({ peer }) => peer)).toEqual(['alice', 'last']);
    expect(joined.consumers).toMatchObject([{ consumer_id, peer: 'alice' }]);
    await last.close();
    const left = await browser.until('last has left', () =>
      browser.messages
        .slice(from)
        .find((told) => told.type === 'peer_left' && told.peer === 'last'),
    );
    const told = browser.messages.slice(from);
    const joinedAt = told.indexOf(joined);
    expect(told[joinedAt + 1]).toMatchObject({ type: 'speaking', peers: [{ peer: 'alice' }] });
    // The first guests may have come before the stall was noticed.
    const early = told.slice(0, joinedAt).filter(isRoomEvent);
    expect(early.length).toBeLessThan(2 * guests.length - 1);
    expect(early.map((event) => 'peer' in event && event.peer)).toEqual(
      guests.flatMap((guest) => [guest, guest]).slice(0, early.length),
    );
    expect(told.slice(joinedAt + 1).filter(isRoomEvent)).toEqual([left]);
    expect(told.filter(({ type }) => type === 'joined')).toEqual([joined]);
  });

  test('and leaves 1 MiB of text unread: closed with 4490', async () => {
    const alice = await enter('alice');
    const bob = await enter('bob');
    keep(keepPlaying(alice, await opusTone(500, AMPLITUDE, 1000)));
    const names = Array.from({ length: 500 }, (_, i) => `${i}`.padStart(100, '0'));
    const volume = Object.fromEntries(names.map((name) => [name, 0.5]));
    await bob.ask({ type: 'configure', volume }, 'configured');
    await eventually('bob hears', () => bob.frames.length >= 30);
    const droppedBefore = counters.dropped.unread;
    bob.stopReading();
    await eventually('bob loses sound', () => counters.dropped.unread > droppedBefore);
    // Each answer has all volumes, 54 KB.
    for (let id = 0; id < 25; id += 1) bob.send({ type: 'configure', volume: {}, id });
    await alice.next('peer_left');
    bob.readAgain();
    expect(await bob.closed).toBe(4490);
    const answered = bob.messages.filter(({ type }) => type === 'configured').length - 1;
    expect(answered).toBeGreaterThanOrEqual(17);
    expect(answered).toBeLessThan(21);
    expect(bob.messages.at(-1)).toMatchObject({ type: 'error', code: 'slow_consumer' });
  });
});
