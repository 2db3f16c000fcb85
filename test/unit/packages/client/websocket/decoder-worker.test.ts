import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { opusTone } from '../../../../support/sound.ts';

/** The worker that decodes for the browser client, with the globals of a worker in this thread. */

type Message = { data: unknown; ports: MessagePort[] };

const { port1: out, port2: heard } = new MessageChannel();
let take: (message: Message) => void;
let greeting: unknown;

beforeAll(async () => {
  vi.stubGlobal('addEventListener', (_: string, listener: typeof take) => (take = listener));
  const ready = new Promise((resolve) => vi.stubGlobal('postMessage', resolve));
  await import('../../../../../packages/client/src/websocket/decoder-worker.ts');
  take({ data: 'play', ports: [out] });
  greeting = await ready;
});
afterAll(() => {
  heard.close();
  vi.unstubAllGlobals();
});

async function decode(packet: Uint8Array): Promise<Float32Array | null> {
  const answered = new Promise<Float32Array | null>((resolve) =>
    heard.addEventListener('message', ({ data }) => resolve(data), { once: true }),
  );
  take({ data: Uint8Array.from(packet).buffer, ports: [] });
  return answered;
}

test('packets are decoded; an empty one, and one that is no Opus, is left to be made up', async () => {
  expect(greeting).toEqual({ ready: true });
  heard.start();
  const [first, second] = (await opusTone(1000, 0.5, 40)) as [Buffer, Buffer];
  expect(await decode(first)).toHaveLength(960);
  // opus-decoder would make 120 ms of it.
  expect(await decode(new Uint8Array(0))).toBeNull();
  expect(await decode(Uint8Array.of(0xff, 0xff))).toBeNull();
  expect(await decode(second)).toHaveLength(960);
});
