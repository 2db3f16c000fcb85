import { describe, expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { findGlitches } from '../support/glitches.ts';
import { amplitudeOf, joinPcm, opusTone, play, toDb } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

const { enter } = useGateway();

const AMPLITUDE = 0.3;

describe('a WebSocket client whose TCP stalls for 300 ms', () => {
  const TONE_HZ = 500;

  test('sound goes on afterwards, and is not heard later than before', async () => {
    const [alice, bob] = [
      await enter('alice', { stats: 'true' }),
      await enter('bob', { audio_out: 'pcm_s16le;rate=48000;channels=1' }),
    ];
    const packets = await opusTone(TONE_HZ, AMPLITUDE, 6000);
    await play(alice, packets.slice(0, 50));
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (const packet of packets.slice(50, 65)) alice.sendAudio(packet);
    await play(alice, packets.slice(65));
    await eventually('all is heard', () => bob.frames.length >= 260);
    const sound = joinPcm(bob.frames).subarray(-96_000, -9600);
    expect(findGlitches(sound).filter(({ kind }) => kind === 'gap')).toEqual([]);
    expect(Math.abs(toDb(amplitudeOf(sound.subarray(0, 9600), TONE_HZ) / AMPLITUDE))).toBeLessThan(
      1.5,
    );
    const { dropped_ms: droppedMs } = await alice.next('stats', 0, 8000);
    expect(bob.frames.length * 20 + droppedMs).toBeLessThan(6400);
  });
});
