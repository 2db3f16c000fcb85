import { afterAll, beforeAll, expect, test } from 'vitest';
import { FORWARD_HEAD_BYTES } from '../../src/audio/mixing/forward-frame.ts';
import { TestClient } from '../support/client.ts';
import { eventually, openTestGateway } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import {
  type Heard,
  type Hearing,
  HEARING_NAMES,
  ListeningProcess,
  MIXED_ONLY,
} from '../support/listening-process.ts';
import {
  decodeOpus,
  encodeOpus,
  joinPcm,
  keepPlaying,
  opusTone,
  peakHz,
  play,
  sweep,
} from '../support/sound.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { StoppableProxy } from '../support/stoppable-proxy.ts';

const FRAME_MS = 20;
/** Sound that may be under way at the end of a stall, and as much as the reference machine may be late. */
const MOST_PAST_MS = 1300;
/** So late may the last packet be that was heard. */
const MOST_BEHIND_MS = 500;
/** Time after which a client that reads again hears what is said then. */
const LIVE_AFTER_MS = 1000;
const [FROM_HZ, TO_HZ] = [300, 3000];

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Packets that are all different, so that it is known of each when it was sent; decoded, by its pitch. */
const packetsOf = (durationMs: number) => encodeOpus(sweep([FROM_HZ, TO_HZ], 0.3, durationMs));

/** Pitch of the other speaker, above those in which alice is looked for. */
const OTHER_HZ = 6000;
/** Samples in 20 ms. */
const FRAME_SAMPLES = 960;

const opened = new AsyncDisposableStack();

/** Keeps a part open until the tests have ended. */
const keep = <T extends { close(): Promise<void> }>(part: T): T =>
  opened.adopt(part, (kept) => kept.close());

/**
 * Opens a gateway at all addresses, with room `a`, in which alice talks and bob hears that. Carol talks at the same time, so that
 * listeners to Opus hear a mix; bob and others that hear forwarded packets do not hear carol.
 */
async function openRoom() {
  const { url, apiKey } = keep(await openTestGateway({ HOST: '0.0.0.0' }));
  const enter = async (peer: string, extra: Record<string, string> = {}) => {
    const query = { room: 'a', peer, api_key: apiKey, audio: 'opus', ...extra };
    const client = opened.adopt(await TestClient.connect(url, query), (part) => part.vanish());
    await client.next('joined');
    return client;
  };
  const alice = await enter('alice');
  const bob = await enter('bob', { delivery: 'forward' });
  const carol = await enter(MIXED_ONLY);
  await bob.ask({ type: 'configure', volume: { [MIXED_ONLY]: 0 } }, 'configured');
  const tone = await opusTone(OTHER_HZ, 0.1, 1000);
  const packets = await packetsOf(20_000);
  /** To be called when all listeners are there: one that comes later is sent a mix at first, not the packets. */
  const talk = () => {
    const stopping = new AbortController();
    const playing = (async () => {
      while (!stopping.signal.aborted) await play(alice, packets, stopping.signal);
    })();
    opened.defer(() => {
      stopping.abort();
      return playing;
    });
    keep(keepPlaying(carol, tone));
  };
  const indexOf = (frame: Buffer) =>
    packets.findIndex((packet) => frame.subarray(-packet.length).equals(packet));
  const indexOfPitch = (samples: Float32Array) =>
    ((peakHz(samples) - FROM_HZ) / (TO_HZ - FROM_HZ)) * packets.length;
  /** Places in alice's sound of the last two frames that a client has heard. */
  const placesOf = async (frames: Buffer[], hearing: Hearing) => {
    const places = frames.slice(-2).map(indexOf);
    // After a stall a mix of alice alone is forwarded, beside the mixes of others.
    if (hearing === 'forward' && !places.includes(-1)) return places;
    if (hearing === 'opus' && frames.some((frame) => indexOf(frame) !== -1)) {
      throw new Error('a listener to Opus was sent packets in place of a mix');
    }
    const headBytes = hearing === 'forward' ? FORWARD_HEAD_BYTES : 0;
    const payloads = frames.map((frame) => frame.subarray(headBytes));
    const samples = hearing === 'pcm' ? joinPcm(payloads) : await decodeOpus(payloads);
    return [samples.slice(-2 * FRAME_SAMPLES, -FRAME_SAMPLES), samples.slice(-FRAME_SAMPLES)].map(
      indexOfPitch,
    );
  };
  /** Delay of a client behind bob, by that of its last two frames which is less late: the sweep may begin anew within one. */
  const behindMs = async ({ last }: Heard, hearing: Hearing) => {
    const now = indexOf(bob.frames.at(-1)!);
    const frames = last.map((frame) => Buffer.from(frame, 'base64'));
    const places = await placesOf(frames, hearing);
    if ([now, ...places].includes(-1)) throw new Error(`nobody has said ${last.join(' or ')}`);
    const apart = places.map((place) => Math.abs(now - place));
    return Math.min(...apart, ...apart.map((count) => packets.length - count)) * FRAME_MS;
  };
  return { url, apiKey, talk, behindMs };
}

/**
 * Compares the sound that clients have heard since `before` with what was said since they went on, and with what is said now.
 * @param sinceMs when each client went on
 */
async function staleness(
  listeners: ListeningProcess,
  before: Heard[],
  sinceMs: number[],
  behindMs: (heard: Heard, hearing: Hearing) => Promise<number>,
) {
  const heard = await listeners.heard();
  const nowMs = performance.now();
  return {
    closeCodes: heard.flatMap(({ closeCode }) => closeCode ?? []),
    mostPastMs: Math.max(
      ...heard.map(
        ({ frames }, index) =>
          (frames - before[index]!.frames) * FRAME_MS - (nowMs - sinceMs[index]!),
      ),
    ),
    behindMs: Math.max(
      ...(await Promise.all(heard.map((each, index) => behindMs(each, HEARING_NAMES[index]!)))),
    ),
  };
}

/** Waits until each client of a process has heard something again. @returns when each has, ms */
async function momentsHeard(listeners: ListeningProcess, before: Heard[]): Promise<number[]> {
  const sinceMs: number[] = [];
  const haveHeard = async () => {
    for (const [index, { frames }] of (await listeners.heard()).entries()) {
      if (frames > before[index]!.frames) sinceMs[index] ??= performance.now();
    }
    return Object.keys(sinceMs).length === before.length;
  };
  await eventually('sound', haveHeard, 30_000);
  return sinceMs;
}

/** Figures of the sound after a cut, and the slowness of the machine then. */
type Figures = Awaited<ReturnType<typeof staleness>> & { slowness: number };

/** Figures of clients that are stopped, of clients behind a stalled network, and of clients whose network is cut: after each cut. */
const figures: Record<'stopped' | 'stalled' | 'cutOff', Figures[]> = {
  stopped: [],
  stalled: [],
  cutOff: [],
};
/**
 * Lengths of the cuts. TCP sends lost packets again 12.6, 25.4 and 51 s after the cut began (with an RTO of 200 ms), and a client is closed
 * after 30 s without a frame of it: the longest cut must have ended by 25.4 s, also where this process is late.
 */
const LASTING_MS = [3000, 10_000, 24_000];

// All are cut off at the same times: a test of each by itself would wait as long again.
beforeAll(async () => {
  const { url, apiKey, talk, behindMs } = await openRoom();
  const proxy = keep(await StoppableProxy.start(url));
  const stopped = keep(await ListeningProcess.start(url, apiKey, 'stopped'));
  const stalled = keep(await ListeningProcess.start(proxy.url, apiKey, 'stalled'));
  const network = Hosts.arePossible ? await openNetwork(url, apiKey) : undefined;
  talk();
  for (const lastsMs of LASTING_MS) {
    await sleep(2000);
    const before = {
      stopped: await stopped.heard(),
      stalled: await stalled.heard(),
      cutOff: (await network?.listeners.heard()) ?? [],
    };
    network?.setLink('down');
    for (const each of [stopped, proxy]) each.stop();
    await sleep(lastsMs);
    network?.setLink('up');
    const goneOnMs = performance.now();
    for (const each of [stopped, proxy]) each.goOn();
    const ofStopped = async () => {
      await sleep(LIVE_AFTER_MS);
      const figuresOf = (listeners: ListeningProcess, from: Heard[]) =>
        staleness(
          listeners,
          from,
          from.map(() => goneOnMs),
          behindMs,
        );
      return [
        await figuresOf(stopped, before.stopped),
        await figuresOf(stalled, before.stalled),
      ] as const;
    };
    const ofNetwork = async () => {
      if (!network) return undefined;
      // The gateway's kernel repeats what was lost ever more seldom.
      const sinceMs = await momentsHeard(network.listeners, before.cutOff);
      await sleep(LIVE_AFTER_MS);
      return staleness(network.listeners, before.cutOff, sinceMs, behindMs);
    };
    const [[afterStop, afterStall], afterCut] = await Promise.all([ofStopped(), ofNetwork()]);
    const slowness = await slownessOfMachine();
    figures.stopped.push({ ...afterStop, slowness });
    figures.stalled.push({ ...afterStall, slowness });
    if (afterCut) figures.cutOff.push({ ...afterCut, slowness });
  }
});
afterAll(() => opened.disposeAsync());

/** Opens clients on a host of their own, whose network can be cut. */
async function openNetwork(gatewayUrl: string, apiKey: string) {
  const hosts = Hosts.open(1);
  opened.defer(() => hosts.close());
  const url = `http://${hosts.addressOfHere(0)}:${new URL(gatewayUrl).port}`;
  const listeners = keep(await ListeningProcess.start(url, apiKey, 'cut off', hosts.commandOn(0)));
  return { listeners, setLink: (state: 'up' | 'down') => hosts.setClientsLink(0, state) };
}

function expectLive(all: Figures[]): void {
  for (const { closeCodes, mostPastMs, behindMs, slowness } of all) {
    expect(closeCodes).toEqual([]);
    expect(mostPastMs).toBeLessThan(MOST_PAST_MS * slowness);
    expect(behindMs).toBeLessThan(MOST_BEHIND_MS * slowness);
  }
}

test('clients that are stopped, and clients behind a stalled network: 1 s of the past at most, then what is said now', () => {
  const { stopped, stalled } = figures;
  expect([stopped.length, stalled.length]).toEqual([LASTING_MS.length, LASTING_MS.length]);
  expectLive([...stopped, ...stalled]);
});

test.skipIf(!Hosts.arePossible)(
  'clients whose network is cut for a while: 1 s of the past at most, then what is said now',
  () => {
    expect(figures.cutOff).toHaveLength(LASTING_MS.length);
    expectLive(figures.cutOff);
  },
);
