import { beforeAll, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import { ClientInput } from '../../../src/session/client-input.ts';
import { pcmTone } from '../../support/sound.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Input of an undeclared client, and the times of arrival of what is heard of it. */
function openInput(isJoining: () => boolean) {
  const faults: unknown[] = [];
  const turn = { begin: () => true, take: (start: () => void) => start() };
  const input = new ClientInput({ declared: 'auto' }, codecs, turn, {
    isJoining,
    onDetected: () => {},
    onOpaque: () => {},
    onMismatch: (observed) => faults.push(observed),
    onFault: (fault) => faults.push(fault),
  });
  const heardAtMs: number[] = [];
  const sink = (_packet: Buffer, _samples: number, _level: number, atMs: number) =>
    void heardAtMs.push(atMs);
  return { input, faults, heardAtMs, sink };
}

test('what a client of a yet unknown format said in the lobby is not heard in the room that it joins', async () => {
  let isJoining = false;
  const { input, faults, heardAtMs, sink } = openInput(() => isJoining);
  const tone = pcmTone(440, 0.5, 2000);
  const startMs = performance.now() - 1000;
  const send = (from: number, to: number) => {
    for (let i = from; i < to; i += 1) input.receive(tone[i]!, startMs + i * 20);
  };
  send(0, 10);
  isJoining = true;
  send(10, 15);
  input.attach(sink);
  send(15, 50);
  await vi.waitFor(() => expect(heardAtMs.length).toBeGreaterThan(20), { timeout: 10_000 });
  expect(Math.min(...heardAtMs)).toBeGreaterThanOrEqual(startMs + 10 * 20);
  expect(faults).toEqual([]);
  input.close();
});
