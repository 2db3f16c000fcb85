import { expect, test, vi } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { recordedOffer } from '../support/offers.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import { postOffer } from '../support/whip-client.ts';

const { PORTS } = vi.hoisted(() => ({ PORTS: 8 }));

/** Few ports for rooms, which no other test takes, in place of 10,000. */
vi.mock(import('../../src/media/loopback.ts'), async (original) => {
  const loopback = await original();
  const min = 9000 + (process.pid % 100) * PORTS;
  const portRange = { min, max: min + PORTS - 1 };
  return {
    ...loopback,
    LOOPBACK_PORTS: PORTS,
    LOOPBACK_LISTEN_INFO: { ...loopback.LOOPBACK_LISTEN_INFO, portRange },
  };
});

const { openGateway, connect, enter } = useStack();

const TIMINGS = { load: { sampleEveryMs: 50, shortAfterFaultMs: 500 } };

async function expectHeard(speaker: TestClient, listener: TestClient): Promise<void> {
  const before = listener.frames.length;
  const tone = await opusTone(1000, 0.5, 300);
  await play(speaker, tone);
  await eventually('every frame', () => listener.frames.length - before === tone.length);
}

test('ports of rooms: calls go on, newcomers are refused, a further room is too, and all is well when rooms end', async () => {
  const node = await openGateway({ MEDIA_WORKERS: '1' }, TIMINGS);
  const metric = async (name: string) => {
    const text = await (await fetch(`${node.url}/metrics`)).text();
    const line = text.split('\n').find((each) => each.startsWith(`partyline_${name} `));
    return Number(line?.split(' ')[1]);
  };
  const isShort = async () => (await metric('short{resource="ports"}')) === 1;
  const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
  const others: TestClient[] = [];
  for (let room = 1; room < PORTS; room += 1) {
    others.push(await enter(node, `peer ${room}`, { room: `room ${room}` }));
  }
  await eventually('ports are short', isShort);
  expect(await metric('shortages_total{resource="ports"}')).toBe(0);
  const newcomer = await connect(node, { peer: 'newcomer' });
  expect(await newcomer.next('error')).toMatchObject({
    code: 'overloaded',
    retry_after_ms: expect.any(Number) as number,
  });
  expect(await newcomer.closed).toBe(1013);
  const whip = await postOffer(node, '/whip/a?peer=obs', recordedOffer('chromium-whip'));
  expect(whip.status).toBe(503);
  expect(Number(whip.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await fetch(`${node.url}/readyz`)).status).toBe(503);
  await expectHeard(ada, bob);

  const refused = await bob.ask({ type: 'join', room: 'one too many' }, 'error');
  expect(refused).toMatchObject({ code: 'overloaded' });
  expect(await metric('shortages_total{resource="ports"}')).toBeGreaterThan(0);
  expect(await bob.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({
    peers: [{ peer: 'ada' }],
  });
  await expectHeard(ada, bob);

  // A browser takes no port of its own.
  const browser = await bob.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  expect(browser.webrtc).toBeDefined();
  await bob.ask({ type: 'join', room: 'a' }, 'joined');
  await expectHeard(ada, bob);

  for (const other of others.splice(0, 3)) await other.close();
  await eventually('there are enough ports', async () => !(await isShort()));
  expect((await fetch(`${node.url}/readyz`)).status).toBe(200);
  await enter(node, 'newcomer', { room: 'another' });
});
