import { expect, test } from 'vitest';
import { loadCodecs } from '../../../../src/audio/codecs.ts';
import type { Delivery } from '../../../../src/audio/format.ts';
import { SimulatedRoom, streamOf } from '../../../support/simulated-room.ts';

const SILENT_LEVEL = 127;
const PACKET_MS = 20;
/** Opus of one frame of 20 ms without sound (RFC 6716 §3.1). */
const SILENCE = Buffer.from([0xf8, 0xff, 0xfe]);
const TALK_MS = 200;
const PAUSE_MS = 61_000;

test.each<Delivery>(['mix', 'forward'])(
  'delivery %s: the packets of a pause are sent for a minute, and not longer; the next word is',
  async (delivery) => {
    const codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 0 });
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', { codec: 'opus' }, delivery);
    const packets = (ms: number) => Array.from({ length: ms / PACKET_MS }, () => SILENCE);
    const said = streamOf('a', packets(TALK_MS + PAUSE_MS + TALK_MS));
    const endMs = TALK_MS + PAUSE_MS;
    const isPause = (atMs: number) => atMs >= TALK_MS && atMs < endMs;
    await room.play(
      said.map(({ packet, ...arrival }) => {
        const audioLevel = isPause(arrival.atMs) ? SILENT_LEVEL : 20;
        return { ...arrival, packet: { ...packet, audioLevel } };
      }),
    );
    room.mixer.close();
    const inPause = heard.framesAtMs.filter(isPause);
    // The hold of 500 ms counts as talk.
    expect(inPause.at(-1)).toBeGreaterThan(60_000);
    expect(inPause.at(-1)).toBeLessThan(60_000 + TALK_MS + 600);
    expect(inPause.length).toBeGreaterThan(60_000 / PACKET_MS);
    // The word goes out in a mix of one, whose first tick comes within 20 ms.
    expect(heard.framesAtMs.find((atMs) => atMs >= endMs)).toBeLessThan(endMs + 40);
  },
);
