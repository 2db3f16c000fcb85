import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { RtpBudget } from '../../../src/bridge/rtp-budget.ts';
import {
  WebRtcLeg,
  type WebRtcLegEvents,
  type WebRtcLegHost,
} from '../../../src/media/webrtc-leg.ts';
import type { ClientConnection } from '../../../src/rooms/peer.ts';
import type { RoomLease } from '../../../src/rooms/registry.ts';
import { WebRtcPeer } from '../../../src/rooms/webrtc-peer.ts';

/** Producer of a browser, whose requests the media worker refuses if the test says so. */
function newProducer(id: string) {
  const producer = {
    id,
    closed: false,
    paused: false,
    fault: undefined as Error | undefined,
    close: () => (producer.closed = true),
    pause: async () => {
      if (producer.fault) throw producer.fault;
      producer.paused = true;
    },
    received: { packetCount: 0, byteCount: 0 },
    getStats: async () => [producer.received],
  };
  return producer;
}

/** A browser in a room that does what the test says, with a real leg on a transport that does nothing. */
async function openPeer() {
  const made: ReturnType<typeof newProducer>[] = [];
  const transport = {
    id: 't',
    observer: { once: () => {} },
    on: () => {},
    produce: async () => {
      made.push(newProducer(`p${made.length + 1}`));
      return made.at(-1);
    },
    consume: async ({ producerId }: { producerId: string }) => ({
      id: `consumer of ${producerId}`,
      rtpParameters: {},
      on: () => {},
    }),
  };
  const host = {
    router: { createWebRtcTransport: async () => transport, canConsume: () => true },
    publish: async () => {},
  } as unknown as WebRtcLegHost;
  const leg = await WebRtcLeg.open(host, {} as WebRtcLegEvents);
  const adding = { fault: undefined as Error | undefined, before: (): unknown => undefined };
  const added = new Set<string>();
  const budget = new RtpBudget(1000, 0);
  const room = {
    suspend: () => {},
    resume: () => {},
    mutedChanged: () => {},
    lastPacketAtMs: () => undefined,
    media: { openWebRtcLeg: async () => ({ leg, router: { rtpCapabilities: {} } }) },
    doLater: (work: () => void) => work(),
    producers: {
      has: () => true,
      budgetOf: () => budget,
      removeOf: () => {
        const had = added.size > 0;
        added.clear();
        return had;
      },
    },
    addBrowserProducer: async (_peer: unknown, id: string) => {
      added.add(id);
      adding.before();
      if (adding.fault) throw adding.fault;
    },
  };
  const connection = { name: 'ann', notify: () => {} } as unknown as ClientConnection;
  const lease = { room } as unknown as RoomLease;
  const peer = await WebRtcPeer.open(lease, connection, undefined, false);
  const produce = () => peer.produce('t', { codecs: [] });
  return { peer, leg, made, added, adding, produce };
}

test('a producer that the room cannot hear is closed, and the browser may produce again', async () => {
  const { peer, made, added, adding, produce } = await openPeer();
  adding.fault = new Error('no decoder');
  await expect(produce()).rejects.toThrow('no decoder');
  expect(made[0]!.closed).toBe(true);
  expect([...added]).toEqual([]);
  expect(peer.isProducing).toBe(false);
  adding.fault = undefined;
  expect(await produce()).toBe('p2');
  expect([...added]).toEqual(['p2']);
  await expect(produce()).rejects.toMatchObject({ code: 'bad_message' });
});

test('a producer that cannot be muted is closed, and the browser may produce again', async () => {
  const { leg, made, produce } = await openPeer();
  await leg.setMuted(true);
  const refused = produce();
  made[0]!.fault = new Error('request timed out');
  await expect(refused).rejects.toThrow('request timed out');
  expect(made[0]!.closed).toBe(true);
  expect(await produce()).toBe('p2');
});

test('a producer that fails as its client loses the right to publish is the last one', async () => {
  const { peer, made, adding, produce } = await openPeer();
  adding.fault = new Error('no decoder');
  adding.before = () => peer.stopPublishing();
  await expect(produce()).rejects.toThrow('no decoder');
  adding.fault = undefined;
  await expect(produce()).rejects.toMatchObject({ code: 'bad_message' });
  expect(made.map(({ closed }) => closed)).toEqual([true]);
});

test('a muted browser that has come back and sends too much is ended by its present connection', async () => {
  const { peer, made, produce } = await openPeer();
  await produce();
  await peer.setMuted(true);
  const ended: string[] = [];
  const connectionOf = (name: string) =>
    ({
      name: 'ann',
      notify: () => {},
      fail: () => ended.push(name),
    }) as unknown as ClientConnection;
  peer.suspend(connectionOf('kept place'));
  peer.resume(connectionOf('second connection'));
  for (const second of [0, 1, 2]) {
    made[0]!.received = { packetCount: 5000 * second, byteCount: 400_000 * second };
    peer.watchRtp(1000 * second);
    await turn();
  }
  expect(ended).toEqual(['second connection']);
});

test('packets of a muted browser that cannot be counted are logged with its present connection', async () => {
  const { peer, made, produce } = await openPeer();
  await produce();
  await peer.setMuted(true);
  const logged: string[] = [];
  const log = { warn: (_fields: unknown, message: string) => logged.push(message) };
  peer.resume({ name: 'ann', notify: () => {}, log } as unknown as ClientConnection);
  made[0]!.getStats = () => Promise.reject(new Error('no answer'));
  peer.watchRtp(1000);
  await expect.poll(() => logged).toEqual(['packets of a muted producer not counted']);
});

test('takeOffer() is true once for each consumer that a browser was offered', async () => {
  const { peer } = await openPeer();
  for (const id of ['p', 'q']) peer.producerAdded({ id, peer: 'bob', owner: undefined });
  await turn();
  const ids = ['consumer of p', 'consumer of p', 'consumer of q', 'consumer of r'];
  expect(ids.map((id) => peer.takeOffer(id))).toEqual([true, false, true, false]);
});
