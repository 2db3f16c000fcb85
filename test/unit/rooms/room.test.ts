import { expect, test } from 'vitest';
import type { MixEngine } from '../../../src/audio/mixing/mix-engine.ts';
import type { PeerKind } from '../../../src/protocol/messages.ts';
import type { Peer } from '../../../src/rooms/peer.ts';
import type { RoomKey, RoomParts } from '../../../src/rooms/room-parts.ts';
import { Room } from '../../../src/rooms/room.ts';
import { RtpBudgets } from '../../../src/rooms/rtp-budgets.ts';
import { HandClock } from '../../support/simulated-room.ts';

const nothing = () => {};
const RATE_EVENTS = { onWarned: nothing, onExceeded: nothing };

function peerOf(name: string, kind: PeerKind, isMuted: boolean): Peer {
  const peer = { name, kind, isMuted, hasMediaPath: false, isMediaOnly: false };
  const events = { notify: nothing, notifyLater: () => false, producerAdded: nothing };
  return { ...peer, hearsProducers: false, ...events } as unknown as Peer;
}

/** A room without media and without other nodes; it hears a producer once the test opens the meter of its levels. */
async function openRoom() {
  const meter = Promise.withResolvers<{ close: () => void }>();
  const consumers = new Set<string>();
  const consume = async (id: string) => {
    consumers.add(id);
    return { close: () => consumers.delete(id) };
  };
  const router = { plainLeg: { consume }, rtpCapabilities: {}, close: nothing };
  const link = {
    otherNodes: 0,
    isShared: false,
    setRouter: nothing,
    setPeer: nothing,
    addProducer: async () => {},
    removeProducer: nothing,
    close: async () => {},
  };
  const engine: MixEngine = { apply: nothing, insert: nothing, tick: nothing, close: nothing };
  const parts = {
    accountId: 1,
    name: 'a',
    pool: { openRouter: async () => router },
    cluster: { openRoom: async () => link },
    mixEngines: { openRoom: () => engine, openLevelMeter: () => meter.promise },
    clock: new HandClock(),
    slices: { add: nothing },
    talkThresholdDbov: -50,
    talkHoldMs: 500,
    maxMixedSpeakers: 8,
    meterPeer: () => nothing,
    meterSize: nothing,
    onJoined: nothing,
    onLeft: nothing,
    rtpBudgets: new RtpBudgets(5000),
  } as unknown as RoomParts & RoomKey;
  const room = await Room.open(parts);
  return { room, consumers, openMeter: () => meter.resolve({ close: nothing }) };
}

test('a muted browser that another way replaces while its producer is made heard does not mute it', async () => {
  const { room, openMeter } = await openRoom();
  const heard: Buffer[] = [];
  room.mixer.addListener({
    peer: 'bob',
    format: { codec: 'opus' },
    delivery: 'mix',
    volume: {},
    deliver: (frame) => heard.push(frame),
    concealed: nothing,
  });
  const browser = peerOf('alice', 'webrtc', true);
  room.enter(browser);
  const added = room.addBrowserProducer(browser, 'p', RATE_EVENTS);
  room.enter(peerOf('alice', 'websocket', false));
  openMeter();
  await added;
  const payload = Buffer.of(0xf8, 1, 2);
  const packet = { sequenceNumber: 1, timestamp: 960, marker: true, audioLevel: 20, payload };
  room.mixer.receive('alice', packet, performance.now());
  expect(heard).toEqual([payload]);
  room.close();
});

test('a producer whose browser is replaced while it is made heard is not consumed any more', async () => {
  const { room, consumers, openMeter } = await openRoom();
  const browser = peerOf('alice', 'webrtc', false);
  room.enter(browser);
  const added = room.addBrowserProducer(browser, 'p', RATE_EVENTS);
  room.enter(peerOf('alice', 'webrtc', false));
  openMeter();
  await added;
  expect([...consumers]).toEqual([]);
  room.close();
});
