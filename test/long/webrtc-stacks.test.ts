import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Hosts } from '../support/hosts.ts';
import { GatewayProcess } from '../support/process.ts';
import { SETTLING } from '../support/settling.ts';
import { joinPcm, keepPlaying, pcmTone, peakHz } from '../support/sound.ts';
import {
  openAiortc,
  openChromium,
  openFirefox,
  openGStreamer,
  openNodeWebRtc,
  openWerift,
  type StackPeer,
  type StackTarget,
} from '../support/stack-peer.ts';
import { useStack } from '../support/use-stack.ts';

/** WebRTC of six makers over WHIP and WHEP: each speaks to a legacy client and hears it, as a peer of one name. */

const { enter, cleanUps } = useStack();
const PCM = { audio: 'pcm_s16le;rate=48000;channels=1' };
/** GStreamer looks through all its plugins when it starts for the first time. */
const LEGACY_HZ = 440;

type Open = (target: StackTarget, hz: number) => Promise<StackPeer>;
const STACKS: [name: string, hz: number, open: Open][] = [
  ['werift', 700, openWerift],
  ['aiortc', 750, openAiortc],
  ['gstreamer', 800, openGStreamer],
  ['node-webrtc', 850, openNodeWebRtc],
  ['chromium', 900, openChromium],
  ['firefox', 1000, openFirefox],
];

/** Several stacks have no loopback candidates: they need a network, be it one to nowhere. */
describe.skipIf(!Hosts.arePossible)('WHIP and WHEP', () => {
  let hosts: Hosts;
  let started: GatewayProcess;
  let gateway: { url: string; apiKey: string };

  beforeAll(async () => {
    hosts = Hosts.open(1);
    started = await GatewayProcess.start();
    const { url, api_key: apiKey } = await started.ready();
    gateway = { url, apiKey };
  });
  afterAll(async () => {
    await started.dispose();
    hosts.close();
  });

  test.each(STACKS)('%s speaks to a legacy client and hears it', async (name, hz, open) => {
    const legacy = await enter(gateway, `legacy-${name}`, { room: name, ...PCM });
    const singing = keepPlaying(legacy, pcmTone(LEGACY_HZ, 0.3, 1000));
    cleanUps.push(() => singing.close());
    const peer = await open({ ...gateway, room: name, peer: name }, hz);
    cleanUps.push(() => peer.close());
    const heardByLegacy = () => peakHz(joinPcm(legacy.frames.slice(-25)));
    await expect.poll(async () => peakHz(await peer.heard()), SETTLING).toBe(LEGACY_HZ);
    await expect.poll(heardByLegacy, SETTLING).toBe(hz);
    // Both halves are one peer.
    const joined = legacy.messages.filter(({ type }) => type === 'peer_joined');
    expect(joined).toMatchObject([{ peer: name, kind: 'webrtc' }]);
  });
});
