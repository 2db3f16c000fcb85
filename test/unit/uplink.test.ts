import { expect, test } from 'vitest';
import { Uplink } from '../../src/bridge/uplink.ts';
import { PartylineError } from '../../src/protocol/errors.ts';
import { HandClock } from '../support/simulated-room.ts';

test('who is closed because he sends too fast is heard no more, and keeps no clock running', () => {
  const clock = new HandClock();
  let heard = 0;
  const faults: unknown[] = [];
  const uplink = new Uplink(
    () => {
      throw new Error('nobody listens behind the router');
    },
    clock,
    {
      onPacket: () => (heard += 1),
      isRouted: () => false,
      onProducer: async () => {},
      onFlow: () => {},
      onFault: (fault) => {
        faults.push(fault);
        uplink.close();
      },
    },
  );
  const startMs = performance.now();
  for (let i = 0; faults.length === 0; i += 1) {
    uplink.send(Buffer.of(0xf8, 1, 2), 960, 20, startMs + i * 10);
  }
  expect(faults.map((fault) => PartylineError.from(fault).code)).toEqual(['audio_rate_exceeded']);
  expect(heard).toBeGreaterThan(0);
  expect(clock.isRunning).toBe(false);
});
