import type { FastifyBaseLogger } from 'fastify';
import { beforeEach, expect, test, vi } from 'vitest';
import type { LevelMeter } from '../../../src/audio/level-meter.ts';
import type { RoomMixer } from '../../../src/audio/mixing/room-mixer.ts';
import { Downlink } from '../../../src/bridge/downlink.ts';
import type { RoomRouter } from '../../../src/media/room-router.ts';
import type { Peer } from '../../../src/rooms/peer.ts';
import { Producers } from '../../../src/rooms/producers.ts';
import { RtpBudgets } from '../../../src/rooms/rtp-budgets.ts';
import { Roster } from '../../../src/rooms/roster.ts';

const RATE_EVENTS = { onWarned: () => {}, onExceeded: () => {} };

const peerOf = (name: string, heard: string[] = []) =>
  ({
    name,
    producerAdded: ({ id }: { id: string }) => heard.push(id),
    producerRemoved: (id: string) => heard.splice(heard.indexOf(id), 1),
  }) as unknown as Peer;

/** Producers over a real way down, whose router and mixer note what is open; a consumer is there when the test says so. */
function openProducers(isHere = () => true, roster = new Roster()) {
  const speakers = new Set<string>();
  const consumers = new Set<string>();
  const consuming: { consumed: () => void; refuse: (fault: Error) => void }[] = [];
  const mixer = {
    hasSpeaker: (peer: string) => speakers.has(peer),
    addSpeaker: (peer: string) => speakers.add(peer),
    removeSpeaker: (peer: string) => speakers.delete(peer),
  } as unknown as RoomMixer;
  const consume = (id: string) =>
    new Promise((resolve, reject) => {
      const consumed = () => {
        consumers.add(id);
        resolve({ close: () => consumers.delete(id) });
      };
      consuming.push({ consumed, refuse: reject });
    });
  const router = { plainLeg: { consume }, rtpCapabilities: {} } as unknown as RoomRouter;
  const meter = { close: () => {} } as LevelMeter;
  const downlink = new Downlink(
    () => router,
    mixer,
    async () => meter,
    () => false,
  );
  const producers = new Producers({
    downlink,
    isHere,
    isInRoom: (name) => roster.has(name),
    speakerOf: (name) => roster.speakerOf(name),
    onRemoteAdded: () => {},
    onRemoved: () => {},
    accountId: 1,
    rtpBudgets: new RtpBudgets(5000),
    log: {} as FastifyBaseLogger,
  });
  return { producers, downlink, speakers, consumers, consuming };
}

/** Roster of a room with alice on another node. */
function rosterElsewhere(): Roster {
  const roster = new Roster();
  roster.enter('alice', 'webrtc', 'another node');
  return roster;
}

let opened: ReturnType<typeof openProducers>;
const alice = peerOf('alice');

beforeEach(() => {
  opened = openProducers();
});

/** Returns what the room, its mixer and its router have of the producer. */
const left = () => [opened.producers.has('p'), [...opened.speakers], [...opened.consumers]];
const NOTHING = [false, [], []];

/** Begins to make a producer heard; resolves when only its consumer is waited for. */
async function begin() {
  const { producers, consuming } = opened;
  const done = producers.open(alice, 'p', RATE_EVENTS);
  await expect.poll(() => consuming.length, { interval: 1 }).toBe(1);
  return { done, ...consuming[0]! };
}

test('open() makes a producer heard by the mixer', async () => {
  const { producers } = opened;
  const { done, consumed } = await begin();
  consumed();
  expect(await done).toBe(true);
  producers.add({ id: 'p', peer: 'alice', owner: alice });
  expect(left()).toEqual([true, ['alice'], ['p']]);
  expect(producers.removeOf(alice)).toBe(true);
  expect(left()).toEqual(NOTHING);
});

test('browsers are told of the producers of others that are added and removed', () => {
  const { producers } = opened;
  const heard: string[] = [];
  producers.addBrowser(peerOf('bob', heard));
  producers.addBrowser(alice);
  for (const id of ['p', 'q']) producers.add({ id, peer: 'alice', owner: alice });
  producers.add({ id: 'r', peer: 'carol', owner: undefined });
  expect(heard).toEqual(['p', 'q', 'r']);
  producers.removePeer(alice);
  expect(heard).toEqual(['r']);
  producers.removeRemote('r');
  expect(heard).toEqual([]);
});

test('a producer of another node is offered once, although it is connected again', async () => {
  const { producers, consuming, consumers } = openProducers(() => false, rosterElsewhere());
  const heard: string[] = [];
  producers.addBrowser(peerOf('bob', heard));
  const added = producers.addRemote('alice', 'p', () => false);
  await expect.poll(() => consuming.length, { interval: 1 }).toBe(1);
  consuming[0]!.consumed();
  await added;
  producers.hearRemote('alice');
  await expect.poll(() => consuming.length, { interval: 1 }).toBe(2);
  consuming[1]!.consumed();
  await expect.poll(() => consumers.size, { interval: 1 }).toBe(1);
  await new Promise(setImmediate);
  expect(heard).toEqual(['p']);
});

test('a producer that ends while it is made heard is not heard: it stopped, its peer left', async () => {
  const { producers } = opened;
  const { done, consumed } = await begin();
  expect(producers.removeOf(alice)).toBe(true);
  expect(producers.removeOf(peerOf('alice'))).toBe(false);
  consumed();
  expect(await done).toBe(false);
  expect(left()).toEqual(NOTHING);
});

test('a producer that ends and takes its requests with it is no fault', async () => {
  const { done, refuse } = await begin();
  opened.producers.removePeer(alice);
  refuse(new Error('producer not found'));
  expect(await done).toBe(false);
  expect(left()).toEqual(NOTHING);
});

test('a producer whose router goes while it is made heard is lost, whatever came of its requests', async () => {
  const { producers, consuming } = opened;
  const { done, consumed } = await begin();
  producers.clear();
  consumed();
  await expect(done).rejects.toMatchObject({ code: 'media_lost' });
  const again = producers.open(alice, 'p', RATE_EVENTS);
  await expect.poll(() => consuming.length, { interval: 1 }).toBe(2);
  producers.clear();
  consuming[1]!.refuse(new Error('channel closed'));
  await expect(again).rejects.toMatchObject({ code: 'media_lost' });
  expect(left()).toEqual(NOTHING);
});

test('a producer that cannot be heard is a fault', async () => {
  const { done, refuse } = await begin();
  refuse(new Error('no SSRC'));
  await expect(done).rejects.toThrow('no SSRC');
  expect(left()).toEqual(NOTHING);
});

test('all producers of a peer, one after the other, have one budget, also when it has joined anew; another peer has its own', () => {
  const { producers, downlink } = opened;
  const add = vi.spyOn(downlink, 'add').mockResolvedValue();
  const bob = peerOf('bob');
  for (const [peer, id] of [
    [alice, 'p'],
    [alice, 'q'],
    [peerOf('alice'), 'r'],
    [bob, 's'],
  ] as const) {
    void producers.open(peer, id, RATE_EVENTS);
  }
  const [first, second, third, other] = add.mock.calls.map(([, , , { budget }]) => budget);
  expect(second).toBe(first);
  expect(third).toBe(first);
  expect(other).not.toBe(first);
});

test('a producer elsewhere of a peer that was here until now is heard from the middle of its stream on', async () => {
  let isHere = true;
  const { producers, downlink } = openProducers(() => isHere, rosterElsewhere());
  const added = vi.spyOn(downlink, 'add').mockResolvedValue();
  await producers.addRemote('alice', 'p', () => false);
  expect(added).not.toHaveBeenCalled();
  isHere = false;
  producers.hearRemote('alice');
  expect(added.mock.calls[0]![3].isRunning()).toBe(true);
});

test('a producer elsewhere of a peer that has left meanwhile is not heard, and takes no speaker number', async () => {
  const roster = rosterElsewhere();
  const { producers, downlink, speakers } = openProducers(() => false, roster);
  const added = vi.spyOn(downlink, 'add').mockResolvedValue();
  const reserved = vi.spyOn(roster, 'speakerOf');
  roster.leave('alice', 'another node');
  await producers.addRemote('alice', 'p', () => false);
  expect(added).not.toHaveBeenCalled();
  expect(reserved).not.toHaveBeenCalled();
  expect([...speakers]).toEqual([]);
  expect(producers.has('p')).toBe(false);
});
