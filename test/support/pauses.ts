import { opusPacketSamples } from '../../src/audio/opus-packet.ts';
import type { TestClient } from './client.ts';

/** Silence between two packets that counts as a pause, ms: more than the machine alone causes. */
const PAUSE_MS = 80;

/** Notes when a listener of Opus hears nothing. @returns a function that tells when each pause began, ms since the first packet */
export function watchPauses(listener: TestClient): () => number[] {
  const pauses: number[] = [];
  let [firstMs, endMs] = [NaN, Infinity];
  listener.onFrame = (packet) => {
    const nowMs = performance.now();
    if (Number.isNaN(firstMs)) firstMs = nowMs;
    if (nowMs - endMs > PAUSE_MS) pauses.push(endMs - firstMs);
    endMs = nowMs + (opusPacketSamples(packet) ?? 0) / 48;
  };
  return () => pauses;
}
