import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
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
import { useStack } from '../support/use-stack.ts';

const { openGateway, enter, cleanUps } = useStack();

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

/**
 * Opens a gateway with room `a`, in which alice talks and bob hears that. Carol talks at the same time, so that listeners to Opus
 * hear a mix; bob and others that hear forwarded packets do not hear carol.
 */
async function openRoom(environment: Record<string, string> = {}) {
  const gateway = await openGateway(environment);
  const alice = await enter(gateway, 'alice');
  const bob = await enter(gateway, 'bob', { delivery: 'forward' });
  const carol = await enter(gateway, MIXED_ONLY);
  await bob.ask({ type: 'configure', volume: { [MIXED_ONLY]: 0 } }, 'configured');
  const tone = await opusTone(OTHER_HZ, 0.1, 1000);
  const packets = await packetsOf(20_000);
  /** To be called when all listeners are there: one that comes later is sent a mix at first, not the packets. */
  const talk = () => {
    const stopping = new AbortController();
    const playing = (async () => {
      while (!stopping.signal.aborted) await play(alice, packets, stopping.signal);
    })();
    cleanUps.push(() => {
      stopping.abort();
      return playing;
    });
    const toning = keepPlaying(carol, tone);
    cleanUps.push(() => toning.close());
  };
  const indexOf = (frame: Buffer) =>
    packets.findIndex((packet) => frame.subarray(-packet.length).equals(packet));
  const indexOfPitch = (samples: Float32Array) =>
    ((peakHz(samples) - FROM_HZ) / (TO_HZ - FROM_HZ)) * packets.length;
  /** Places in alice's sound of the last two frames that a client has heard. */
  const placesOf = async (frames: Buffer[], hearing: Hearing) => {
    if (hearing === 'forward') return frames.slice(-2).map(indexOf);
    if (hearing === 'opus' && frames.some((frame) => indexOf(frame) !== -1)) {
      throw new Error('a listener to Opus was sent packets in place of a mix');
    }
    const samples = hearing === 'opus' ? await decodeOpus(frames) : joinPcm(frames);
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
  return { gateway, talk, behindMs };
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
async function untilHeard(listeners: ListeningProcess, before: Heard[]): Promise<number[]> {
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

test('clients that are stopped, and clients behind a stalled network: 1 s of the past at most, then what is said now', async () => {
  const room = await openRoom();
  const { url, apiKey } = room.gateway;
  const proxy = await StoppableProxy.start(url);
  cleanUps.push(() => proxy.close());
  const stopped = await ListeningProcess.start(url, apiKey, 'stopped');
  const cutOff = await ListeningProcess.start(proxy.url, apiKey, 'cut off');
  for (const listeners of [stopped, cutOff]) cleanUps.push(() => listeners.close());
  room.talk();
  for (const lastsMs of [3000, 10_000, 25_000]) {
    await sleep(2000);
    const before = [await stopped.heard(), await cutOff.heard()] as const;
    for (const each of [stopped, proxy]) each.stop();
    await sleep(lastsMs);
    const sinceMs = performance.now();
    for (const each of [stopped, proxy]) each.goOn();
    await sleep(LIVE_AFTER_MS);
    const stale = [];
    for (const [index, listeners] of [stopped, cutOff].entries()) {
      const all = before[index]!;
      stale.push(
        await staleness(
          listeners,
          all,
          all.map(() => sinceMs),
          room.behindMs,
        ),
      );
    }
    const slowness = await slownessOfMachine();
    for (const after of stale) {
      expect(after.closeCodes).toEqual([]);
      expect(after.mostPastMs).toBeLessThan(MOST_PAST_MS * slowness);
      expect(after.behindMs).toBeLessThan(MOST_BEHIND_MS * slowness);
    }
  }
});

test.skipIf(!Hosts.arePossible)(
  'clients whose network is cut for a while: 1 s of the past at most, then what is said now',
  async () => {
    const hosts = Hosts.open(1);
    cleanUps.push(() => hosts.close());
    const room = await openRoom({ HOST: '0.0.0.0' });
    const { port } = new URL(room.gateway.url);
    const url = `http://${hosts.addressOfHere(0)}:${port}`;
    const { apiKey } = room.gateway;
    const cutOff = await ListeningProcess.start(url, apiKey, 'cut off', hosts.commandOn(0));
    cleanUps.push(() => cutOff.close());
    room.talk();
    for (const lastsMs of [3000, 10_000, 25_000]) {
      await sleep(2000);
      const before = await cutOff.heard();
      hosts.setClientsLink(0, 'down');
      await sleep(lastsMs);
      hosts.setClientsLink(0, 'up');
      // The gateway's kernel repeats what was lost ever more seldom.
      const sinceMs = await untilHeard(cutOff, before);
      await sleep(LIVE_AFTER_MS);
      const after = await staleness(cutOff, before, sinceMs, room.behindMs);
      const slowness = await slownessOfMachine();
      expect(after.closeCodes).toEqual([]);
      expect(after.mostPastMs).toBeLessThan(MOST_PAST_MS * slowness);
      expect(after.behindMs).toBeLessThan(MOST_BEHIND_MS * slowness);
    }
  },
  150_000,
);
