import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import type { Room } from '../../../src/rooms/room.ts';
import type { WebRtcPeer } from '../../../src/rooms/webrtc-peer.ts';
import { mediaLost } from '../../../src/media/webrtc-leg.ts';
import type { ServerMessage } from '../../../src/protocol/messages.ts';
import type { ClientAudio } from '../../../src/session/client-audio.ts';
import { Presence } from '../../../src/session/presence.ts';
import { presencePartsOf } from '../../support/presence-parts.ts';

/** A change of a client's way into its room, with a room and media that do what the test says. */

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const RTP = { codecs: [] } as never;

/** A leg to a browser; `packetCame()` is its first packet. */
function newLeg() {
  let onChange = () => {};
  const leg = {
    sendTransport: { id: 'send' },
    recvTransport: { id: 'recv' },
    isProducing: false,
    isReceiving: true,
    hasConsumers: true,
    hasPacket: false,
    isSilent: false,
    hold: (told: () => void) => (onChange = told),
    setMuted: async () => {},
    produce: async () => {
      leg.isProducing = true;
      return 'p';
    },
    release: vi.fn<() => Promise<void>>(async () => {}),
    close: vi.fn<() => void>(),
    packetCame: () => {
      leg.hasPacket = true;
      onChange();
    },
  };
  return leg;
}

function open() {
  const messages: ServerMessage[] = [];
  const faults: unknown[] = [];
  const legs: ReturnType<typeof newLeg>[] = [];
  const nothing = () => {};
  const room = {
    media: {
      openWebRtcLeg: async () => {
        legs.push(newLeg());
        return { leg: legs.at(-1), router: { rtpCapabilities: RTP } };
      },
      get router() {
        throw mediaLost(undefined);
      },
    },
    mixer: { addListener: nothing, removeListener: nothing, updateListener: nothing },
    relay: { add: nothing, remove: nothing },
    clock: { add: nothing, remove: nothing },
    producers: { announceTo: nothing, has: () => false },
    route: { isOpen: false },
    uplinkTimings: { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers },
    iceServers: { for: () => [] },
    enter: nothing,
    prepare: nothing,
    change: nothing,
    leave: nothing,
    others: () => [],
    speakerOf: () => 1,
    tellSpeakersTo: nothing,
    whenAllHeard: async () => {},
    addBrowserProducer: async () => {},
  } as unknown as Room;
  const client = {
    name: 'alice',
    account: { id: 'x' },
    log: { info: nothing },
    notify: (message: ServerMessage) => messages.push(message),
    fail: (fault: unknown) => faults.push(fault),
  };
  const audio = {
    subscription: {},
    isMuted: false,
    attach: nothing,
    describeSettings: () => ({ volume: {}, mute: false }),
  };
  const presence = new Presence(
    client as never,
    audio as unknown as ClientAudio,
    presencePartsOf(room),
  );
  const join = (media: { media?: 'webrtc' }, id: number) => {
    presence.joinCame();
    return presence.join('a', { type: 'join', room: 'a', id, ...media });
  };
  const told = () =>
    messages.map((each) => ('code' in each ? `${each.type} ${each.code}` : each.type));
  return { presence, join, told, messages, faults, legs };
}

const WEBRTC = { media: 'webrtc' } as const;

describe('to the WebSocket', () => {
  /** A client that is in its room as a browser, and produces. */
  async function openBrowser() {
    const client = open();
    await client.join(WEBRTC, 1);
    client.legs[0]!.isProducing = true;
    return client;
  }

  test('a binary message right behind the join completes the change', async () => {
    const { presence, join, told, messages } = await openBrowser();
    const joining = join({}, 2);
    presence.binaryCame();
    await joining;
    expect(told()).toEqual(['joined', 'joined', 'media_changed']);
    expect(messages.at(-1)).toMatchObject({ kind: 'websocket', reply_to: 2 });
  });

  test('one that came before the join does not, and the next does', async () => {
    const { presence, join, told } = await openBrowser();
    presence.binaryCame();
    await join({}, 2);
    expect(told()).toEqual(['joined', 'joined']);
    presence.binaryCame();
    presence.binaryCame();
    expect(told()).toEqual(['joined', 'joined', 'media_changed']);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(told()).toHaveLength(3);
  });

  test('without one the old way stays', async () => {
    const { join, told, legs } = await openBrowser();
    await join({}, 2);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(told()).toEqual(['joined', 'joined', 'error media_lost']);
    expect(legs[0]!.close).not.toHaveBeenCalled();
  });
});

describe('to WebRTC, when the media worker dies', () => {
  /** A client by WebSocket, whose first packet has come by WebRTC. */
  async function openHeard() {
    const client = open();
    await client.join({}, 1);
    await client.join(WEBRTC, 2);
    const browser = client.presence.browser as WebRtcPeer;
    await browser.produce('send', { codecs: [] });
    const [leg] = client.legs;
    leg!.packetCame();
    return { ...client, browser, leg: leg! };
  }

  test('after the first packet: the old way stays, and the client is told one error', async () => {
    const { browser, leg, presence, told, messages, faults } = await openHeard();
    browser.mediaRestarted();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(told()).toEqual(['joined', 'joined', 'error media_lost']);
    expect(messages.at(-1)).toMatchObject({ retryable: true, reply_to: 2 });
    expect(presence.browser).toBeUndefined();
    expect([leg.close.mock.calls.length > 0, faults]).toEqual([true, []]);
  });

  test('as the new way takes over: the client keeps its connection, and is told to join again', async () => {
    const { browser, leg, told, faults } = await openHeard();
    leg.release.mockRejectedValue(mediaLost(new Error('closed')));
    await vi.advanceTimersByTimeAsync(2000);
    browser.mediaRestarted();
    expect(told()).toEqual(['joined', 'joined', 'media_changed', 'media_restarted']);
    expect(faults).toEqual([]);
  });

  test('another fault of the new way ends the session', async () => {
    const { leg, faults } = await openHeard();
    const fault = new Error('refused');
    leg.release.mockRejectedValue(fault);
    await vi.advanceTimersByTimeAsync(2000);
    expect(faults).toEqual([fault]);
  });
});
