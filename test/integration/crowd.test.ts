import { expect, test, vi } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Many peers that do the same thing at the same moment. */

const { connect, enter } = useGateway();

const PEERS = 150;

/** The peers of which a client was told that they are in its room, in the order in which it was told; null if one was told twice. */
function rosterOf({ messages }: TestClient): string[] | null {
  const present = new Set<string>();
  for (const message of messages) {
    const come =
      message.type === 'joined' ? message.peers : message.type === 'peer_joined' ? [message] : [];
    for (const { peer } of come) {
      if (present.has(peer)) return null;
      present.add(peer);
    }
    if (message.type === 'peer_left' && !present.delete(message.peer)) return null;
  }
  return [...present].toSorted();
}

test('peers that enter one room at once, and leave it at once: each is told of each other once, in an order that makes sense', async () => {
  const names = Array.from({ length: PEERS }, (_, index) => `peer ${index}`);
  const clients = await Promise.all(
    names.map(async (peer) => {
      const client = await connect({ peer });
      await client.next('welcome');
      return client;
    }),
  );
  for (const client of clients) client.send({ type: 'join', room: 'crowd' });
  const others = (index: number) => names.filter((_, other) => other !== index).toSorted();
  await eventually('everybody knows everybody', () =>
    clients.every((client) => rosterOf(client)?.length === PEERS - 1),
  );
  for (const [index, client] of clients.entries()) expect(rosterOf(client)).toEqual(others(index));

  const [leaving, staying] = [clients.slice(0, PEERS / 2), clients.slice(PEERS / 2)];
  for (const client of leaving) client.send({ type: 'leave' });
  await eventually('those that stay know only each other', () =>
    staying.every((client) => rosterOf(client)?.length === staying.length - 1),
  );
  for (const client of leaving) {
    const { messages } = client;
    await client.next('left');
    const left = messages.findIndex(({ type }) => type === 'left');
    expect(messages.slice(left + 1)).toEqual([]);
  }
});

test('an event is serialized once, however many peers are told', async () => {
  const clients = await Promise.all(
    Array.from({ length: 20 }, (_, index) => enter(`peer ${index}`)),
  );
  const stringify = vi.spyOn(JSON, 'stringify');
  await enter('late');
  const isOfLate = (message: object) => 'peer' in message && message.peer === 'late';
  await eventually('everybody is told', () =>
    clients.every(({ messages }) => messages.some(isOfLate)),
  );
  const serialized = stringify.mock.calls.map(([value]) => value as { type?: string });
  stringify.mockRestore();
  expect(
    serialized.filter((value) => value?.type === 'peer_joined' && isOfLate(value)),
  ).toHaveLength(1);
});

/** Consumers that a browser is offered before its transport is connected (src/rooms/pending-consumers.ts). */
const BEFORE_CONNECTED = 4;

test('browsers that enter one room and speak at once, and never connect: each is offered few others, once', async () => {
  const browsers = 20;
  const speak = async (peer: string, ssrc: number) => {
    const client = await connect({ peer });
    const { webrtc } = await client.ask({ type: 'join', room: 'crowd', media: 'webrtc' }, 'joined');
    client.send({
      type: 'produce',
      transport_id: webrtc!.send_transport.id,
      kind: 'audio',
      rtp_parameters: {
        codecs: [{ mimeType: 'audio/opus', payloadType: 111, clockRate: 48_000, channels: 2 }],
        encodings: [{ ssrc }],
      },
    });
    await client.next('produced');
    return client;
  };
  const clients = await Promise.all(
    Array.from({ length: browsers }, (_, index) => speak(`browser ${index}`, 1000 + index)),
  );
  const offered = ({ messages }: TestClient) =>
    messages.flatMap((message) => (message.type === 'new_consumer' ? [message.peer] : []));
  await eventually('some are offered', () =>
    clients.every((client) => offered(client).length >= BEFORE_CONNECTED),
  );
  await speak('late', 2000);
  // An offer too many of it, or of another, would come before the answer of the same media worker.
  await Promise.all(
    clients.map(async (client) => {
      const { webrtc } = await client.next('joined');
      const transport_id = webrtc!.recv_transport.id;
      await client.ask({ type: 'restart_ice', transport_id }, 'ice_restarted');
    }),
  );
  for (const client of clients) {
    expect(offered(client)).toHaveLength(BEFORE_CONNECTED);
    expect(new Set(offered(client)).size).toBe(BEFORE_CONNECTED);
  }
});
