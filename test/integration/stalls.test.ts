import { describe, expect, test } from 'vitest';
import { counters } from '../../src/counters.ts';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { findGlitches } from '../support/glitches.ts';
import { undisturbed } from '../support/listening.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { amplitudeOf, joinPcm, opusTone, play, toDb } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

const inUse = useGateway();
const { keep, enter } = inUse;

const AMPLITUDE = 0.3;

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
      await eventually('all is heard', () => bob.frames.length >= 260);
      const stats = await alice.next('stats');
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
  const PCM = 'pcm_s16le;rate=48000;channels=1';

  test('hears 1 s of the past at most, then what is said now, and is told the outcome of what happened', async () => {
    // Fewer than the 50 frames that must be missing, however slow the machine is.
    const lateFrames = Math.min(35, 15 * (await slownessOfMachine()));
    const alice = await enter('alice');
    const listeners = [
      await enter('pcm', { audio_out: PCM }),
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
    for (const client of all) client.stopReading();
    const playing = play(alice, packets.slice(40, 140));
    // More than one or two listeners lose before the third does.
    await eventually('all lose sound', () => counters.dropped.unread - droppedBefore >= 60);
    const bob = await enter('bob');
    const carol = await enter('carol');
    await bob.close();
    await carol.next('peer_left');
    const from = listeners[1]!.messages.length;
    listeners[1]!.send({ type: 'configure', id: 'asked', volume: { bob: 1 } });
    await playing;
    for (const client of all) client.readAgain();
    await play(alice, packets.slice(140));
    const last = packets.at(-1)!;
    const hasEnded = ({ frames }: TestClient) => frames.at(-1)?.subarray(-last.length).equals(last);
    const ended = [...all.slice(1), reading];
    await eventually('the last packet', () => ended.every(hasEnded));
    for (const { frames } of listeners) {
      expect(frames.length).toBeLessThan(40 + FRAMES_OF_1_S + 60 + lateFrames);
      expect(frames.length).toBeGreaterThan(40 + 30);
    }
    // It has never answered a ping, so that nobody knows that it did not read.
    expect(unanswering.frames).toEqual(reading.frames);
    const told = listeners[1]!.messages.slice(from);
    const joinedAt = told.findIndex(({ type }) => type === 'joined');
    // Reports of speakers from before the stall may come first.
    const before = told.slice(0, joinedAt).filter(({ type }) => type !== 'speaking');
    expect(before).toMatchObject([{ type: 'configured', reply_to: 'asked' }]);
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
    expect(told.map(({ type }) => type)).not.toContain('peer_joined');
  });
});
