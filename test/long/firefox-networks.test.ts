import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { TestFirefox } from '../support/firefox.ts';
import { type Block, NO_UDP, noWebRtc, onlyPort, OPEN, setFirewall } from '../support/firewall.ts';
import { Hosts } from '../support/hosts.ts';
import { LegacyEar } from '../support/legacy-ear.ts';
import { GatewayProcess } from '../support/process.ts';
import { TestProxy } from '../support/proxy.ts';
import { describeSeam, risingTone } from '../support/rising-tone.ts';
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
const AUDIBLE = 0.1;

const opened = new AsyncDisposableStack();
let hosts: Hosts;
let gateway: { url: string; apiKey: string };
let card: SoundCard;
let firefox: TestFirefox;
/** The gateway, at an address to which browsers give a microphone. */
let proxy: TestProxy;

/** Slowness of the machine when a test begins (decision 191): the durations that it promises are longer by this factor. */
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

/** Transport of the audio now, and its protocol if it is WebRTC. */
const pathNow = () =>
  firefox.page.evaluate(async () => {
    const stats = await window.partyline?.rtcStats();
    if (!stats) return window.partyline?.transport;
    type Report = { type: string; nominated?: boolean; state?: string; localCandidateId?: string };
    const reports = [...(stats.send.values() as Iterable<Report>)];
    const pair = reports.find(
      ({ type, nominated, state }) =>
        type === 'candidate-pair' && nominated && state === 'succeeded',
    );
    const local = stats.send.get(pair?.localCandidateId ?? '') as { protocol?: string } | undefined;
    return local?.protocol;
  });

/** Records what both ends hear, until `stop()`. */
function record() {
  const speakers = card.record('speakers');
  legacyEar.start();
  return {
    stop: async () => {
      const [here, { samples, startMs }] = [await legacyEar.stop(), await speakers.stop()];
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
    },
  };
}

/** Awaits that everybody is told of Ada's other way. @param withinMs limit on the reference machine */
async function changesTo(kind: 'webrtc' | 'websocket', withinMs: number): Promise<void> {
  const told = legacy.messages.length;
  const isTold = () =>
    legacy.messages
      .slice(told)
      .find((message) => message.type === 'peer_changed' && message.kind === kind);
  await legacy.until(`Ada over ${kind}`, isTold, withinMs * slowness);
}

/** Presses Join, and records both ends until sound goes by a path. */
async function joinBy(path: string) {
  const recording = record();
  const clickedMs = performance.now();
  const heard = legacyEar.soundedMs();
  const beganMs = Date.now();
  await firefox.join(ROOM, 'Ada', gateway.apiKey);
  const atLegacyMs = (await heard) - beganMs;
  await expect.poll(pathNow, SETTLING).toBe(path);
  await sleep(1500);
  const { soundedMs, ...ends } = await recording.stop();
  return { heardMs: Math.max(atLegacyMs, soundedMs - clickedMs), ...ends };
}

/** Both ends hear the other within 5 s on the reference machine, and most of what is said then. */
const GOOD = {
  heardMs: expect.toSatisfy((ms: number) => ms < 5000 * slowness),
  playedMs: expect.toSatisfy((ms: number) => ms > 1200),
  atLegacy: { share: expect.toSatisfy((share: number) => share > 0.75) },
  atBrowser: { share: expect.toSatisfy((share: number) => share > 0.75) },
};
const inWords = (figures: object) => JSON.stringify(figures);

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
    ['UDP and WebRTC’s TCP blocked', noWebRtc(RTC_PORT), 'websocket'],
    ['everything but the page’s port blocked', onlyPort(PAGE_PORT), 'websocket'],
  ])('%s: heard and hearing within 5 s', async ([, block, path], { annotate }) => {
    setNetwork(block);
    const figures = await joinBy(path);
    await annotate(inWords(figures));
    expect(figures).toMatchObject(GOOD);
  });

  test('all open: heard and hearing within 5 s; Mute mutes it; it comes back, and goes over to the WebSocket', async ({
    annotate,
  }) => {
    const figures = await joinBy('udp');
    await annotate(inWords(figures));
    expect(figures).toMatchObject(GOOD);

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
    expect(legacy.messages.slice(cutAtMs).map(({ type }) => type)).not.toContain('peer_left');

    legacyEar.start();
    await legacyEar.soundedMs();
    const recording = record();
    await sleep(500);
    const isOver = changesTo('websocket', 10_000);
    setNetwork(noWebRtc(RTC_PORT));
    await isOver;
    await sleep(1500);
    const { atLegacy, atBrowser } = await recording.stop();
    await annotate(inWords({ atLegacy, atBrowser }));
    // Less than the 8 s after which a path is noticed to be dead of which no audio is missed.
    const mostMs = Math.min(3000 * slowness, 7000);
    expect(atLegacy.gapMs).toBeLessThan(mostMs);
    expect(atBrowser.gapMs).toBeLessThan(mostMs);
    expect(legacy.messages.map(({ type }) => type)).not.toContain('peer_left');
  });
});
