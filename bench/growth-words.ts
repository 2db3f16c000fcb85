import { setTimeout as sleep } from 'node:timers/promises';
import type { TestClient } from '../test/support/client.ts';
import { connectPeer, reportRow } from './growth-join.ts';
import type { Nodes } from './nodes.ts';
import { encodePackets } from './packets.ts';
import { FRAME_MS } from './pacing.ts';

const ROOMS = 32;
/** Number of rooms that are measured at a time. */
const LINES = 8;
/** Time until a room is at rest after the last join, ms; and between two words, until no peer counts as talking. */
const REST_MS = 700;
const WORD_FRAMES = 10;

/**
 * Measures the time from the first packet of a word to the first one heard, for a speaker that is new in a
 * room and later.
 */
export async function reportWords(
  print: (text: string) => void,
  nodes: Nodes,
  signal: AbortSignal,
) {
  const { packets } = await encodePackets();
  print(`
| first packet of a word, ${ROOMS} rooms | p50 / p99 | goal |
| --- | --- | --- |
`);
  for (const [where, node] of [
    ['on the same node', 0],
    ['on the other node', 1],
  ] as const) {
    const { firstMs, laterMs } = await measure(nodes, node, packets, signal);
    print(reportRow(`heard ${where}, the first word`, firstMs));
    print(reportRow(`heard ${where}, the second`, laterMs));
  }
}

async function measure(nodes: Nodes, node: number, packets: Buffer[], signal: AbortSignal) {
  const firstMs: number[] = [];
  const laterMs: number[] = [];
  const rooms = Array.from({ length: ROOMS }, (_, index) => `words-${node}-${index}`).values();
  const speakInRest = async () => {
    for (const room of rooms) {
      const mouth = await connectPeer(nodes, 0, `mouth of ${room}`, room);
      const ear = await connectPeer(nodes, node, `ear of ${room}`, room);
      await Promise.all([mouth, ear].map((client) => client.next('joined')));
      for (const latenciesMs of [firstMs, laterMs]) {
        await sleep(REST_MS, undefined, { signal });
        latenciesMs.push(await speak(mouth, ear, packets));
      }
      await Promise.all([mouth, ear].map((client) => client.close()));
    }
  };
  await Promise.all(Array.from({ length: LINES }, speakInRest));
  return { firstMs, laterMs };
}

/** @returns the time from the sending of the first packet to its receipt, ms */
async function speak(mouth: TestClient, ear: TestClient, packets: Buffer[]): Promise<number> {
  const [startMs, before] = [performance.now(), ear.frames.length];
  const heard = ear
    .until('frame', () => ear.frames[before])
    .then(() => performance.now() - startMs);
  for (const packet of packets.slice(0, WORD_FRAMES)) {
    mouth.sendAudio(packet);
    await sleep(FRAME_MS);
  }
  return heard;
}
