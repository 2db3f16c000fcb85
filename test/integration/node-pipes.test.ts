import type { Producer } from 'mediasoup/types';
import { expect, test, vi } from 'vitest';
import { readSettings } from '../../config/settings.ts';
import { DEFAULT_TIMINGS, type Timings } from '../../config/timings.ts';
import { RemoteNode } from '../../src/cluster/remote-node.ts';
import type { RoomEnd } from '../../src/cluster/room-end.ts';
import type { RoomState } from '../../src/cluster/room-state.ts';
import { counters } from '../../src/counters.ts';
import { MediaWorker } from '../../src/media/media-worker.ts';
import { NodePipe } from '../../src/media/node-pipe.ts';
import { PlainLeg } from '../../src/media/plain-leg.ts';
import { writeRtpPacket } from '../../src/rtp/packet.ts';
import { Packetizer } from '../../src/rtp/packetizer.ts';
import { FORMAT } from '../../src/store/state-format.ts';
import { eventually, freeRtcPort, silentLog } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

/** A room on two nodes: real routers and pipes, and states that are handed over directly. */

const { cleanUps } = useStack();

async function startWorker(): Promise<MediaWorker> {
  const settings = {
    mediaWorkers: 1,
    workerBin: readSettings({}).MEDIASOUP_WORKER_BIN,
    rtcAddresses: () => [{ ip: '127.0.0.1', takesTcp: true, isSet: true }],
    rtcPort: freeRtcPort(),
    routerMaxConsumers: 1,
    timings: DEFAULT_TIMINGS.mediaWorkers,
  };
  const worker = await MediaWorker.start(0, settings, silentLog);
  cleanUps.push(() => worker.close());
  return worker;
}

/** One node of the room. */
async function openNode(name: string, timings: Timings['pipes']) {
  const worker = await startWorker();
  const router = await worker.openRouter();
  const published: Producer[] = [];
  const leg = await PlainLeg.open(router, async (producer) => void published.push(producer));
  cleanUps.push(() => leg.close());
  const producers = new Map<string, string>();
  const running = new Set<string>();
  const heard = new Set<string>();
  /** Producers of the other node that were there before they were piped. */
  const heardRunning = new Set<string>();
  const unheard: string[] = [];
  /** Peers of which the next producer cannot be heard. */
  const refuse = new Set<string>();
  const pipes: NodePipe[] = [];
  const end: RoomEnd = {
    node: name,
    producers,
    isOpen: true,
    addressFor: () => ({ ip: '127.0.0.1' }),
    openPipe: async (address) => {
      const range = { min: 20_000, max: 29_999 };
      const pipe = await NodePipe.open(router, address, range, async () => {});
      pipes.push(pipe);
      return pipe;
    },
    changed: () => node.onChanged(),
    isRunning: (id) => running.has(id),
    heard: async (peer, id, isRunning) => {
      if (refuse.delete(peer)) throw new Error('not heard');
      heard.add(id);
      await node.onHeard(id);
      if (isRunning()) heardRunning.add(id);
    },
    unheard: (id) => {
      heard.delete(id);
      unheard.push(id);
    },
    noteSilent: () => {},
    warn: () => {},
    timings,
  };
  const node = {
    end,
    producers,
    heard,
    heardRunning,
    unheard,
    refuse,
    pipes,
    remote: undefined as RemoteNode | undefined,
    onChanged: () => {},
    /** Called while the other node's producer is connected. */
    onHeard: async (_id: string) => {},
    /** Lets a producer run, and tells the other node. */
    run(id: string) {
      running.add(id);
      node.onChanged();
    },
    async addSpeaker(peer: string, isRunning = false) {
      const speaker = await leg.produce();
      const packetizer = new Packetizer();
      producers.set(speaker.id, peer);
      if (isRunning) running.add(speaker.id);
      node.remote?.converge();
      return {
        id: speaker.id,
        say: () => {
          const packet = packetizer.packetize(Buffer.from(peer), 960, 20, 0);
          speaker.send(writeRtpPacket(packet, speaker));
        },
        leave: () => {
          producers.delete(speaker.id);
          speaker.close();
          node.remote?.converge();
        },
      };
    },
  };
  return node;
}

type Node = Awaited<ReturnType<typeof openNode>>;

async function openRoom(changed: Partial<Timings['pipes']> = {}): Promise<[Node, Node]> {
  const timings = { ...DEFAULT_TIMINGS.pipes, ...changed };
  const nodes: [Node, Node] = [await openNode('a', timings), await openNode('b', timings)];
  let version = 0;
  const stateOf = ({ end, remote }: Node, other: Node): RoomState => {
    const pipe = remote?.describeEnd();
    return {
      format: FORMAT,
      version: (version += 1),
      departed: false,
      peers: [{ peer: end.node, kind: 'websocket', place: '', away: false }],
      left: [],
      pipes: pipe ? { [other.end.node]: pipe } : {},
    };
  };
  for (const [node, other] of [nodes, nodes.toReversed()] as [Node, Node][]) {
    node.onChanged = () =>
      setImmediate(() => {
        if (other.remote) other.remote.state = stateOf(node, other);
      });
    const remote = new RemoteNode(other.end.node, stateOf(other, node), node.end);
    node.remote = remote;
    cleanUps.push(() => remote.close());
  }
  for (const node of nodes) node.onChanged();
  return nodes;
}

test('who begins to speak after a long silence is heard over the pipe that is there', async () => {
  const [a, b] = await openRoom({ checkEveryMs: 100, cutAfterMs: 500 });
  const talker = await a.addSpeaker('x');
  const muted = await a.addSpeaker('y');
  await eventually('both are heard', () => b.heard.size === 2);
  const [pipe] = a.pipes;
  const receivedBytes = async () => (await pipe!.traffic()).bytesReceived;
  talker.say();
  await eventually('it is reported', async () => (await receivedBytes()) > 0);
  talker.leave();
  const checks = vi.spyOn(pipe!, 'traffic');
  await eventually('it was silent for long', () => checks.mock.calls.length > 6);
  checks.mockRestore();
  const before = { bytes: await receivedBytes(), faults: counters.pipeFaults };
  muted.say();
  await eventually('it is reported', async () => (await receivedBytes()) > before.bytes);
  const later = vi.spyOn(pipe!, 'traffic');
  const hasFailed = () => counters.pipeFaults > before.faults;
  await eventually('it was checked', () => later.mock.calls.length > 1 || hasFailed());
  expect(hasFailed()).toBe(false);
  expect(a.pipes).toHaveLength(1);
  expect(b.heard).toEqual(new Set([muted.id]));
});

test('a producer that was there before it is piped is told from one that is new', async () => {
  const [a, b] = await openRoom();
  await a.addSpeaker('x');
  const running = await a.addSpeaker('y', true);
  await eventually('both are heard', () => b.heard.size === 2);
  expect(b.heardRunning).toEqual(new Set([running.id]));
});

test.each(['piped', 'connected'])(
  'a producer that begins to run while it is %s counts as running',
  async (step) => {
    const [a, b] = await openRoom();
    await a.addSpeaker('x');
    await eventually('it is heard', () => b.heard.size === 1);
    const run = async (id: string) => {
      a.run(id);
      // Behind the one that tells the other node.
      await new Promise((resolve) => setImmediate(resolve));
    };
    const [pipe] = b.pipes;
    const receive = pipe!.receive.bind(pipe);
    vi.spyOn(pipe!, 'receive').mockImplementation(async (...offer) => {
      const piped = await receive(...offer);
      if (step === 'piped') await run(offer[0]);
      return piped;
    });
    if (step === 'connected') b.onHeard = run;
    const late = await a.addSpeaker('y');
    await eventually('it is heard, too', () => b.heardRunning.has(late.id));
    expect(b.heardRunning).toEqual(new Set([late.id]));
  },
);

test('a producer that cannot be sent does not affect the others, and one that has ended is ignored', async () => {
  const [a, b] = await openRoom({ retryAfterMs: 50 });
  const { id } = await a.addSpeaker('x');
  await eventually('it is heard', () => b.heard.has(id));
  const faults = counters.pipeFaults;
  const sends = vi.spyOn(a.pipes[0]!, 'send');
  // The media worker knows no such producer.
  a.producers.set('gone', 'y');
  a.remote!.converge();
  a.producers.delete('gone');
  await eventually('it was refused', () => sends.mock.settledResults[0]?.type === 'rejected');
  const late = await a.addSpeaker('z');
  await eventually('another is heard', () => b.heard.has(late.id));
  expect(counters.pipeFaults).toBe(faults);
  a.producers.set('unknown', 'y');
  a.remote!.converge();
  await eventually('it is retried', () => counters.pipeFaults >= faults + 2);
  expect([a.pipes.length, b.pipes.length]).toEqual([1, 1]);
  expect(b.heard).toEqual(new Set([id, late.id]));
});

test('a producer that cannot be heard is retried, and the others stay', async () => {
  const [a, b] = await openRoom({ retryAfterMs: 50 });
  const { id } = await a.addSpeaker('x');
  await eventually('it is heard', () => b.heard.has(id));
  b.refuse.add('y');
  const faults = counters.pipeFaults;
  const refused = await a.addSpeaker('y');
  await eventually('it is heard at last', () => b.heard.has(refused.id));
  expect(counters.pipeFaults).toBe(faults + 1);
  expect([a.pipes.length, b.pipes.length]).toEqual([1, 1]);
  expect(b.unheard).toEqual([refused.id]);
  await eventually('the other node knows', () => a.remote!.hears(refused.id));
});
