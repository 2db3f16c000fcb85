import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';
import { ListeningProcess } from '../support/listening-process.ts';
import { encodeOpus, play, sweep } from '../support/sound.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { StoppableProxy } from '../support/stoppable-proxy.ts';
import { useStack } from '../support/use-stack.ts';

const { openGateway, enter, cleanUps } = useStack();

const FRAME_MS = 20;
/** Sound that may be under way at the end of a stall, and as much as the reference machine may be late. */
const MOST_PAST_MS = 1300;
/** So late may the last packet be that was heard. */
const MOST_BEHIND_MS = 500;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Packets that are all different, so that it is known of each when it was sent. */
const packetsOf = (durationMs: number) => encodeOpus(sweep([300, 3000], 0.3, durationMs));

/** Opens a gateway with room `a`, in which alice talks and bob hears that. */
async function openRoom(environment: Record<string, string> = {}) {
  const gateway = await openGateway(environment);
  const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
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
  };
  const indexOf = (frame: Buffer) =>
    packets.findIndex((packet) => frame.subarray(-packet.length).equals(packet));
  /** Delay of a client behind bob, by the last frame of each: a packet, perhaps after a head. */
  const behindMs = (last: string) => {
    const [said, now] = [indexOf(Buffer.from(last, 'base64')), indexOf(bob.frames.at(-1)!)];
    if (said < 0 || now < 0) throw new Error(`nobody has said ${last}`);
    const apart = Math.abs(now - said);
    return Math.min(apart, packets.length - apart) * FRAME_MS;
  };
  return { gateway, talk, behindMs };
}

/** Compares the sound that clients have heard since `before` with what was said in that time, and now. */
async function staleness(
  listeners: ListeningProcess,
  before: { frames: number }[],
  sinceMs: number,
  behindMs: (last: string) => number,
) {
  const heard = await listeners.heard();
  const lastsMs = performance.now() - sinceMs;
  const [, opus, forwarded] = heard.map(({ last }) => last);
  return {
    closeCodes: heard.flatMap(({ closeCode }) => closeCode ?? []),
    mostPastMs: Math.max(
      ...heard.map(({ frames }, index) => (frames - before[index]!.frames) * FRAME_MS - lastsMs),
    ),
    behindMs: Math.max(behindMs(opus!), behindMs(forwarded!)),
  };
}

/** Waits until each client of a process has heard something again. */
const untilHeard = (listeners: ListeningProcess, before: { frames: number }[]) =>
  eventually(
    'sound',
    async () => {
      const heard = await listeners.heard();
      return heard.every(({ frames }, index) => frames > before[index]!.frames);
    },
    30_000,
  );

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
    await sleep(2000);
    const stale = [];
    for (const [index, listeners] of [stopped, cutOff].entries()) {
      stale.push(await staleness(listeners, before[index]!, sinceMs, room.behindMs));
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
    for (const lastsMs of [3000, 10_000]) {
      await sleep(2000);
      const before = await cutOff.heard();
      hosts.setClientsLink(0, 'down');
      await sleep(lastsMs);
      hosts.setClientsLink(0, 'up');
      // The gateway's kernel repeats what was lost ever more seldom.
      await untilHeard(cutOff, before);
      const sinceMs = performance.now();
      await sleep(2000);
      const after = await staleness(cutOff, before, sinceMs, room.behindMs);
      const slowness = await slownessOfMachine();
      expect(after.closeCodes).toEqual([]);
      expect(after.mostPastMs).toBeLessThan(MOST_PAST_MS * slowness);
      expect(after.behindMs).toBeLessThan(MOST_BEHIND_MS * slowness);
    }
  },
  90_000,
);
