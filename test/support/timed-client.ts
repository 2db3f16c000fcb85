import { expect, vi } from 'vitest';
import type { Codecs } from '../../src/audio/codecs.ts';
import { type DeclaredFormat, formatAudioFormat } from '../../src/audio/format.ts';
import { AudioInput } from '../../src/audio/ingest/input.ts';
import { SoundBudget } from '../../src/audio/ingest/sound-budget.ts';

/** A client, undeclared unless it says otherwise, whose messages come at times of our own, ms; what is found out is noted with the time. */
export function openTimedClient(codecs: Codecs, declared: DeclaredFormat = 'auto') {
  const packets: Buffer[] = [];
  const relayed: Buffer[] = [];
  const detected: { format: string; atMs: number }[] = [];
  const faults: unknown[] = [];
  let nowMs = 0;
  const input = new AudioInput(
    declared,
    codecs,
    { sink: (packet) => packets.push(packet), sound: new SoundBudget() },
    {
      onDetected: (format) => detected.push({ format: formatAudioFormat(format), atMs: nowMs }),
      onOpaque: (message) => relayed.push(message),
      onMismatch: (observed) => faults.push(observed),
      onFault: (fault) => faults.push(fault),
    },
  );
  const send = async (messages: readonly Buffer[], messageMs: number) => {
    for (const message of messages) {
      input.push(message, nowMs);
      nowMs += messageMs;
      await new Promise(setImmediate);
    }
  };
  /** Frames are decoded in a thread, in a time of its own. */
  const isHeard = (count: number) =>
    vi.waitFor(() => expect(packets).toHaveLength(count), { timeout: 10_000, interval: 5 });
  return { input, packets, relayed, detected, faults, send, isHeard, now: () => nowMs };
}
