import type { Producer, Router } from 'mediasoup/types';
import { expect, test } from 'vitest';
import { PlainLeg } from '../../../src/media/plain-leg.ts';

test('a leg that closes while a producer is published rejects, and leaves no producer', async () => {
  const producer = { id: 'p', closed: false, close: () => (producer.closed = true) };
  const transport = {
    tuple: { localPort: 9 },
    connect: async () => {},
    produce: async () => producer,
    close: () => {},
  };
  const router = { createPlainTransport: async () => transport } as unknown as Router;
  const published: Producer[] = [];
  const leg = await PlainLeg.open(router, async (made) => {
    published.push(made);
    leg.close();
  });
  await expect(leg.produce()).rejects.toThrow('the leg was closed meanwhile');
  expect(published).toHaveLength(1);
  expect(producer.closed).toBe(true);
});
