import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { audioPath } from '../support/audio-path.ts';
import { TestClient } from '../support/client.ts';
import { TestFirefox } from '../support/firefox.ts';
import {
  type Block,
  losing,
  NO_UDP,
  noWebRtc,
  onlyPort,
  OPEN,
  setFirewall,
} from '../support/firewall.ts';
import { Hosts } from '../support/hosts.ts';
import { LegacyEar } from '../support/legacy-ear.ts';
import { leastOf, undisturbed } from '../support/listening.ts';
import { GatewayProcess } from '../support/process.ts';
import { TestProxy } from '../support/proxy.ts';
import { describeSeam, risingTone, worstOf } from '../support/rising-tone.ts';
import { SETTLING } from '../support/settling.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { encodeOpus, keepPlaying } from '../support/sound.ts';
import { SoundCard } from '../support/sound-card.ts';

/**
 * Firefox and networks that let more or less of WebRTC through. It plays on a sound card in user space, without which it runs no AudioContext, and
 * so no sound over the WebSocket. Sound counts as heard when it arrives at the card.
 */

const PAGE_PORT = 3000;
const RTC_PORT = 40_000;
const ROOM = 'a';
const NO_WEBRTC = noWebRtc(RTC_PORT);
const AUDIBLE = 0.1;

const opened = new AsyncDisposableStack();
let hosts: Hosts;
let gateway: { url: string; apiKey: string };
let card: SoundCard;
let firefox: TestFirefox;
/** The gateway, at an address to which browsers give a microphone. */
let proxy: TestProxy;

/** Slowness of the machine (decision 191) when a test begins, or later if that is greater: the durations that it promises are longer by this factor. */
let slowness: number;
let cleanUps: AsyncDisposableStack;
let legacy: TestClient;
let legacyEar: LegacyEar;

const setNetwork = (block: Block) => setFirewall(hosts.commandOn(0), block);

/** Removes what a page of another test has stored. Runs in Firefox, before the page. */
function forgetNetworks(): void {
  if (location.protocol === 'about:') return; // it has no storage
  localStorage.clear();
  sessionStorage.clear();
}

const pathNow = () => firefox.page.evaluate(audioPath);

/** Leaves the page, and measures the machine anew without its load. */
async function measureAgain(): Promise<void> {
  await firefox.page.goto('about:blank');
  slowness = Math.max(slowness, await slownessOfMachine());
}

/** Records what both ends hear, until `stop()`, or `end()`, whose result describes it later. */
function record() {
  const speakers = card.record('speakers');
  legacyEar.start();
  const end = async () => {
    const decode = legacyEar.end();
    const { samples, startMs } = await speakers.stop();
    return async () => {
      const here = await decode();
      const first = samples.findIndex((sample) => Math.abs(sample) > AUDIBLE);
      const last = samples.findLastIndex((sample) => Math.abs(sample) > AUDIBLE);
      const there = { samples: samples.subarray(Math.max(0, first), last + 1), rateHz: 48_000 };
      return {
        /** From the first to the last sound that was played. */
        playedMs: (last - Math.max(0, first)) / 48,
        /** When the first sound was played, ms of `performance.now()`. */
        soundedMs: first < 0 ? Infinity : startMs + first / 48,
        atLegacy: { ...describeSeam(here), gapMs: here.gapMs },
        atBrowser: describeSeam(there),
      };
    };
  };
  return { end, stop: async () => (await end())() };
}

/** The message that tells others of Ada's other way, among those that came after some. */
const changeTo = (kind: 'webrtc' | 'websocket', after: number) =>
  legacy.messages
    .slice(after)
    .find((message) => message.type === 'peer_changed' && message.kind === kind);

/** Cuts WebRTC, and awaits that others are told of the WebSocket. */
async function cutWebRtc(block: Block): Promise<void> {
  const told = legacy.messages.length;
  setNetwork(block);
  const isOver = () => changeTo('websocket', told);
  await legacy.until('Ada over websocket', isOver, 10_000 * slowness);
}

/** Cuts WebRTC during a call, and records both ends until sound goes by the WebSocket. */
async function recordCut(block: Block) {
  const recording = record();
  await sleep(500);
  await cutWebRtc(block);
  await sleep(1500);
  const { atLegacy, atBrowser } = await recording.stop();
  return { atLegacy, atBrowser };
}

/** Lets the client try WebRTC again: after a minute, and where that fails on a busy machine, after two, four and eight more. */
async function comeBack(): Promise<void> {
  const told = legacy.messages.length;
  for (let minutes = 1; !changeTo('webrtc', told) && minutes <= 8; minutes *= 2) {
    await firefox.pass(minutes * 61_000);
    const isBack = () => changeTo('webrtc', told);
    await legacy.until('Ada over webrtc', isBack, 12_000).catch(() => undefined);
  }
  expect(changeTo('webrtc', told)).toBeDefined();
}

/** Presses Join, and waits until sound goes by a path. @returns when it was pressed, and how much later the other end heard it, ms */
async function join(path: string) {
  const clickedMs = performance.now();
  const heard = legacyEar.soundedMs();
  const beganMs = Date.now();
  await firefox.join(ROOM, 'Ada', gateway.apiKey);
  const atLegacyMs = (await heard) - beganMs;
  await expect.poll(pathNow, SETTLING).toBe(path);
  return { clickedMs, atLegacyMs };
}

/** Joins, and records both ends until sound goes by a path and for a while longer; if the machine stalls, once more for a while. */
async function joinBy(path: string) {
  const fromJoin = record();
  const joined = join(path);
  type Description = Awaited<ReturnType<typeof fromJoin.end>>;
  let describeJoin: Description | undefined;
  const describeEnds = await undisturbed(async (number) => {
    await joined;
    const recording = number === 1 ? fromJoin : record();
    await sleep(2000);
    const described = await recording.end();
    describeJoin ??= described;
    return described;
  });
  const { clickedMs, atLegacyMs } = await joined;
  const { soundedMs, atLegacy, atBrowser } = await describeJoin!();
  const { soundedMs: _, ...ends } = await describeEnds();
  return {
    heardMs: Math.max(atLegacyMs, soundedMs - clickedMs),
    shareAtJoin: Math.min(atLegacy.share, atBrowser.share),
    ...ends,
  };
}

/** Both ends hear the other within 5 s on the reference machine, and most of what is said then. */
const GOOD = {
  heardMs: expect.toSatisfy((ms: number) => ms < 5000 * slowness),
  // Also on a machine that stalls.
  shareAtJoin: expect.toSatisfy((share: number) => share > 0.5),
  playedMs: expect.toSatisfy((ms: number) => ms > 1200),
  atLegacy: { share: expect.toSatisfy((share: number) => share > 0.75) },
  atBrowser: { share: expect.toSatisfy((share: number) => share > 0.75) },
};

/** Less than the 8 s after which a path is noticed to be dead of which no audio is missed; 3 s on the reference machine. */
const shortGap = expect.toSatisfy((ms: number) => ms < Math.min(3000 * slowness, 7000));
const OVER = { atLegacy: { gapMs: shortGap }, atBrowser: { gapMs: shortGap } };

const inWords = (figures: object) => JSON.stringify(figures);

const typesTold = (since = 0) => legacy.messages.slice(since).map(({ type }) => type);

describe.skipIf(!Hosts.arePossible)('Firefox', () => {
  beforeAll(async () => {
    hosts = Hosts.open(1);
    opened.defer(() => hosts.close());
    // Firefox nominates the way from each address of this machine, and the last one counts: all
    // must be good.
    hosts.setDefaultRoute(0);
    card = await SoundCard.open();
    opened.defer(() => card.close());
    const address = hosts.addressForClients(0);
    const environment = {
      HOST: '0.0.0.0',
      PORT: String(PAGE_PORT),
      RTC_LISTEN_IP: address,
      RTC_PORT: String(RTC_PORT),
    };
    const started = await GatewayProcess.start(environment, undefined, hosts.commandOn(0));
    opened.defer(() => started.dispose());
    const { api_key: apiKey } = await started.ready();
    gateway = { url: `http://${address}:${PAGE_PORT}`, apiKey };
    proxy = await TestProxy.open(gateway.url);
    opened.defer(() => proxy.close());
    firefox = await TestFirefox.open(proxy.url, card);
    opened.defer(() => firefox.close());
    await firefox.page.evaluateOnNewDocument(forgetNetworks);
    const voice = card.keepSpeaking(risingTone());
    opened.defer(() => voice.close());
  });
  afterAll(() => opened.disposeAsync());

  beforeEach(async () => {
    cleanUps = new AsyncDisposableStack();
    slowness = await slownessOfMachine();
    setNetwork(OPEN);
    const query = { room: ROOM, peer: 'door phone', api_key: gateway.apiKey, audio: 'opus' };
    legacy = await TestClient.connect(gateway.url, query);
    cleanUps.defer(() => legacy.vanish());
    await legacy.next('joined');
    legacyEar = new LegacyEar(legacy);
    const speech = keepPlaying(legacy, await encodeOpus(risingTone()));
    cleanUps.defer(() => speech.close());
    proxy.leadTo(gateway.url);
    await firefox.page.goto(`${proxy.url}/?raw&transports=webrtc,websocket`);
  });
  afterEach(async () => {
    await firefox.page.goto('about:blank');
    await cleanUps.disposeAsync();
  });

  test.for<[string, Block, string]>([
    ['UDP blocked', NO_UDP, 'tcp'],
    ['UDP and WebRTC’s TCP blocked', NO_WEBRTC, 'websocket'],
    ['everything but the page’s port blocked', onlyPort(PAGE_PORT), 'websocket'],
  ])('%s: heard and hearing within 5 s', async ([, block, path], { annotate }) => {
    setNetwork(block);
    const figures = await joinBy(path);
    await annotate(inWords(figures));
    await measureAgain();
    expect(figures).toMatchObject(GOOD);
  });

  test('all open: heard and hearing within 5 s; Mute mutes it; it comes back, and goes over to the WebSocket', async ({
    annotate,
  }) => {
    const figures = await joinBy('udp');
    await annotate(inWords(figures));

    await firefox.page.click('#mute');
    await legacy.next('peer_changed');
    await sleep(300); // what is on its way
    legacyEar.start();
    await sleep(500);
    expect((await legacyEar.stop()).samples).toHaveLength(0);
    await firefox.page.click('#mute');

    const cutAtMs = legacy.messages.length;
    proxy.cut();
    await sleep(500);
    proxy.leadTo(gateway.url);
    const state = () => firefox.page.evaluate(() => window.partyline?.state.name);
    await expect.poll(state, SETTLING).toBe('in_room');
    expect(typesTold(cutAtMs)).not.toContain('peer_left');

    legacyEar.start();
    await legacyEar.soundedMs();
    const change = await recordCut(NO_WEBRTC);
    await annotate(inWords(change));
    expect(typesTold()).not.toContain('peer_left');
    await measureAgain();
    expect(figures).toMatchObject(GOOD);
    expect(change).toMatchObject(OVER);
  });

  test.for<[string, Block]>([
    ['the way up', { ...NO_WEBRTC, out: [] }],
    ['the way down', { ...NO_WEBRTC, into: [] }],
  ])('WebRTC cut in %s: over to the WebSocket within 3 s', async ([, block], { annotate }) => {
    await joinBy('udp');
    const figures = await recordCut(block);
    await annotate(inWords(figures));
    expect(typesTold()).not.toContain('peer_left');
    await measureAgain();
    expect(figures).toMatchObject(OVER);
  });

  test('WebRTC cut and mended: back with 100 ms missing at most', async ({ annotate }) => {
    await joinBy('udp');
    /** Goes over to the WebSocket, and back. */
    const change = async () => {
      // After two minutes a way back has proved good.
      await firefox.pass(121_000);
      await cutWebRtc(NO_WEBRTC);
      setNetwork(OPEN);
      await sleep(3000);
      const recording = record();
      await sleep(300);
      await comeBack();
      await sleep(1000);
      return recording.end();
    };
    // If the machine is busy, the buffers of both ends are longer or shorter by chance: one quiet
    // change is enough.
    const leastMs = await leastOf(
      change,
      async (describeIt) => {
        const { atLegacy, atBrowser } = await describeIt();
        await annotate(inWords({ atLegacy, atBrowser }));
        return worstOf(atLegacy, atBrowser);
      },
      100,
    );
    expect(leastMs).toBeLessThanOrEqual(100);
    expect(typesTold()).not.toContain('peer_left');
  }, 400_000);

  test('5, 15 and 30 % of UDP lost: WebRTC is kept', async ({ annotate }) => {
    await joinBy('udp');
    const told = legacy.messages.length;
    for (const percent of [5, 15, 30]) {
      setNetwork(losing(percent, 'udp'));
      const describeIt = await undisturbed(async () => {
        const recording = record();
        await sleep(5000);
        return recording.end();
      });
      const { atLegacy, atBrowser } = await describeIt();
      await annotate(inWords({ percent, atLegacy, atBrowser }));
      const least = percent < 30 ? 0.9 : 0.85;
      expect(Math.min(atLegacy.share, atBrowser.share)).toBeGreaterThan(least);
      expect(await pathNow()).toBe('udp');
    }
    expect(typesTold(told)).not.toContain('peer_changed');
    expect(typesTold()).not.toContain('peer_left');
  });
});
