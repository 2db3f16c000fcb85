import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { amplitudeOf, encodeOpus, opusTone, tone } from '../../../../support/sound.ts';

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

test('packets of 120 ms are heard at the highest bit rate; one that the decoder does not take is left to be made up', async () => {
  const options = { channels: 2, bitrate: 510_000 } as const;
  const [first, second] = await encodeOpus(tone(1000, 0.5, 240), 120, options);
  expect(first!.length).toBeGreaterThan(7500);
  expect(await decode(first!)).toHaveLength(5760);
  const samples = await decode(second!);
  expect(samples).toHaveLength(5760);
  expect(amplitudeOf(samples!, 1000)).toBeCloseTo(0.5, 1);
  expect(await decode(new Uint8Array(7681))).toBeNull();
  expect(await decode(second!)).toHaveLength(5760);
});
