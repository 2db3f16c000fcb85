import { describe, expect, test } from 'vitest';
import type { TimingOverrides } from '../../config/timings.ts';
import type { ServerMessage } from '../../src/protocol/messages.ts';
import type { TestClient } from '../support/client.ts';
import { eventually, type TestGateway } from '../support/gateway.ts';
import { amplitudeOf, joinPcm, keepPlaying, opusTone, pcmTone, peakHz } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';
import { useStack } from '../support/use-stack.ts';
import { WebRtcClient } from '../support/webrtc-client.ts';

/** One peer, two ways (docs/protocol.md, section 3): a client goes over from WebSocket to WebRTC, and back, in one room. */

/** Closed after the clients of the stack. */
const used = useGateway();
const { openGateway, openNodes, enter, connect, cleanUps } = useStack();

const PCM = { audio: 'pcm_s16le;rate=48000;channels=1' };
const WEBRTC = { type: 'join', room: 'a', media: 'webrtc' };
const WEBSOCKET = { type: 'join', room: 'a' };
const [BY_SOCKET_HZ, BY_WEBRTC_HZ, BOB_HZ] = [440, 880, 600];
const opus = (hz: number) => opusTone(hz, 0.5, 1000);
const OFTEN: TimingOverrides = { sessions: { beatEveryMs: 50 } };
const IMPATIENT: TimingOverrides = { sessions: { changesWithinMs: 800 } };

const ofType = <T extends ServerMessage['type']>({ messages }: TestClient, type: T) =>
  messages.filter(
    (message): message is Extract<ServerMessage, { type: T }> => message.type === type,
  );
/** Messages about a peer that another one was told. */
const toldOf = (listener: TestClient, peer: string) =>
  listener.messages.filter(
    (told) => 'peer' in told && told.peer === peer && told.type !== 'welcome',
  );
/** The tone in the last 200 ms that a listener to samples has heard. */
const lastHz = ({ frames }: TestClient) => peakHz(joinPcm(frames.slice(-10)));
const hears = (listener: TestClient, hz: number) =>
  eventually(`${hz} Hz`, () => listener.frames.length > 10 && Math.abs(lastHz(listener) - hz) < 30);
const keep = <T extends { close(): Promise<void> }>(part: T): T => {
  cleanUps.push(() => part.close());
  return part;
};
const figures = async ({ url, apiKey }: TestGateway) => {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await fetch(`${url}/api/me`, { headers });
  return ((await response.json()) as { summary: { current_ccu: number } }).summary;
};
const peersIn = async ({ url }: TestGateway) => {
  const text = await (await fetch(`${url}/metrics`)).text();
  const read = (name: string) =>
    Number(new RegExp(`^partyline_${name} (\\d+)`, 'm').exec(text)?.[1]);
  return { websocket: read('websocket_peers'), webrtc: read('webrtc_peers') };
};

/** Joins as a browser does; the change to it is done when the client has been told. */
async function goOver(client: TestClient, packets: Buffer[], id?: string): Promise<WebRtcClient> {
  const { webrtc } = await client.ask({ ...WEBRTC, ...(id && { id }) }, 'joined');
  const browser = keep(new WebRtcClient(client, webrtc));
  await browser.hear();
  await browser.produce();
  browser.talk(packets);
  return browser;
}

describe.each(['the same node', 'another node'])('for a listener on %s', (where) => {
  test('a peer goes over to WebRTC and back: it is heard by one way at a time, and is one peer', async () => {
    const nodes = where === 'the same node' ? [used.gateway] : await openNodes(2);
    const [one, other = one!] = nodes;
    const bob = await enter(other, 'bob', PCM);
    const alice = await enter(one!, 'alice');
    keep(keepPlaying(alice, await opus(BY_SOCKET_HZ)));
    await hears(bob, BY_SOCKET_HZ);

    const packets = await opus(BY_WEBRTC_HZ);
    const browser = await goOver(alice, packets, 'over');
    expect(await alice.next('media_changed')).toEqual({
      type: 'media_changed',
      kind: 'webrtc',
      volume: {},
      mute: false,
      reply_to: 'over',
    });
    await hears(bob, BY_WEBRTC_HZ);
    expect(await bob.next('peer_changed')).toEqual({
      type: 'peer_changed',
      peer: 'alice',
      kind: 'webrtc',
      speaker: expect.any(Number),
    });

    const heardByWebRtc = keep(keepPlaying(bob, pcmTone(BOB_HZ, 0.5, 1000)));
    await eventually('alice hears bob', () => browser.heard.length > 10);
    const framesBefore = alice.frames.length;
    await eventually('and goes on', () => browser.heard.length > 30);
    expect(alice.frames).toHaveLength(framesBefore);
    expect(await figures(one!)).toMatchObject({ current_ccu: 2 });

    const from = alice.messages.length;
    await alice.ask({ ...WEBSOCKET, id: 'back' }, 'joined');
    const back = { kind: 'websocket', reply_to: 'back' };
    expect(await alice.next('media_changed', from)).toMatchObject(back);
    await hears(bob, BY_SOCKET_HZ);
    await eventually('alice hears bob', () => alice.frames.length > framesBefore + 10);
    const byWebRtc = browser.heard.length;
    await eventually('and goes on', () => alice.frames.length > framesBefore + 30);
    expect(browser.heard).toHaveLength(byWebRtc);
    await heardByWebRtc.close();
    const told = toldOf(bob, 'alice').map((message) =>
      'kind' in message ? [message.type, message.kind] : [message.type],
    );
    expect(told).toEqual([
      ['peer_joined', 'websocket'],
      ['peer_changed', 'webrtc'],
      ['peer_changed', 'websocket'],
    ]);
    expect(await figures(one!)).toMatchObject({ current_ccu: 2 });
  });
});

describe('while a change waits', () => {
  /** Alice by WebSocket, who has asked to go over to WebRTC, and bob. */
  const begin = async (timings: TimingOverrides = {}, environment = {}) => {
    const gateway = await openGateway(environment, timings);
    const bob = await enter(gateway, 'bob', PCM);
    const alice = await enter(gateway, 'alice');
    keep(keepPlaying(alice, await opus(BY_SOCKET_HZ)));
    const { webrtc } = await alice.ask({ ...WEBRTC, id: 1 }, 'joined');
    return { gateway, alice, bob, webrtc: webrtc! };
  };
  const isAsBefore = async ({ gateway, alice, bob }: Awaited<ReturnType<typeof begin>>) => {
    bob.frames.length = 0;
    await hears(bob, BY_SOCKET_HZ);
    const told = ['peer_changed', 'peer_left', 'media_changed'];
    for (const client of [alice, bob]) {
      expect(client.messages.filter(({ type }) => told.includes(type))).toEqual([]);
    }
    expect(await peersIn(gateway)).toEqual({ websocket: 2, webrtc: 0 });
  };

  test('nothing comes by WebRTC: the client is told, and goes on over the WebSocket', async () => {
    const begun = await begin(IMPATIENT);
    const { alice, webrtc } = begun;
    const fault = { code: 'media_lost', retryable: true, reply_to: 1 };
    expect(await alice.next('error')).toMatchObject(fault);
    await isAsBefore(begun);
    const restart = { type: 'restart_ice', transport_id: webrtc.send_transport.id };
    expect(await alice.ask(restart, 'error')).toMatchObject({ code: 'bad_message' });
  });

  test('another join begins it anew, one without media gives it up, and so does leave', async () => {
    const begun = await begin();
    const { alice, bob, webrtc } = begun;
    const again = await alice.ask(WEBRTC, 'joined');
    expect(again.webrtc?.send_transport.id).not.toBe(webrtc.send_transport.id);
    const restart = { type: 'restart_ice', transport_id: webrtc.send_transport.id };
    expect(await alice.ask(restart, 'error')).toMatchObject({ code: 'bad_message' });
    await alice.ask({ ...restart, transport_id: again.webrtc?.send_transport.id }, 'ice_restarted');
    expect(
      await alice.ask({ type: 'configure', volume: { bob: 0.5 } }, 'configured'),
    ).toMatchObject({
      volume: { bob: 0.5 },
    });
    expect(await alice.ask(WEBSOCKET, 'joined')).not.toHaveProperty('webrtc');
    expect(await alice.ask(restart, 'error')).toMatchObject({ code: 'bad_message' });
    await isAsBefore(begun);
    await alice.ask(WEBRTC, 'joined');
    await alice.ask({ type: 'leave' }, 'left');
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'left' });
    expect(alice.messages.filter(({ type }) => type === 'media_changed')).toEqual([]);
  });

  test('rtp_capabilities that can hear nobody are refused, and the change before goes on', async () => {
    const begun = await begin();
    const { alice, webrtc } = begun;
    const refused = await alice.ask({ ...WEBRTC, rtp_capabilities: { codecs: [] } }, 'error');
    expect(refused).toMatchObject({ code: 'bad_message' });
    const browser = keep(new WebRtcClient(alice, webrtc));
    await browser.produce();
    browser.talk(await opus(BY_WEBRTC_HZ));
    expect(await alice.next('media_changed')).toMatchObject({ kind: 'webrtc', reply_to: 1 });
  });

  test('the client vanishes: its session resumes by the way that it has', async () => {
    const { gateway, alice } = await begin({}, { RESUME_MS: '15000' });
    const { session_id, resume_token } = await alice.next('welcome');
    alice.vanish();
    const query = { room: '__lobby__', session_id, resume_token };
    const again = await connect(gateway, query);
    const joined = await again.next('joined');
    expect([joined.webrtc, joined.consumers]).toEqual([undefined, undefined]);
    expect(await peersIn(gateway)).toEqual({ websocket: 2, webrtc: 0 });

    await goOver(again, await opus(BY_WEBRTC_HZ));
    await again.next('media_changed');
    const { resume_token: token } = await again.next('welcome');
    again.vanish();
    const browser = await connect(gateway, { ...query, resume_token: token });
    expect((await browser.next('joined')).consumers).toEqual([]);
    expect(await peersIn(gateway)).toEqual({ websocket: 1, webrtc: 1 });
  });

  test('the media worker dies: the client is told, and goes on over the WebSocket', async () => {
    const begun = await begin();
    const { gateway, alice } = begun;
    for (const pid of gateway.mediaWorkerPids()) process.kill(pid, 'SIGKILL');
    expect(await alice.next('error')).toMatchObject({ code: 'media_lost', reply_to: 1 });
    await isAsBefore(begun);
  });
});

describe('from WebRTC', () => {
  const browserOf = async (gateway: TestGateway) => {
    const alice = await connect(gateway, { room: '__lobby__' });
    const browser = await goOver(alice, await opus(BY_WEBRTC_HZ));
    return { alice, browser };
  };

  test('without a binary message it stays', async () => {
    const gateway = await openGateway({}, IMPATIENT);
    const bob = await enter(gateway, 'bob', PCM);
    const { alice } = await browserOf(gateway);
    await hears(bob, BY_WEBRTC_HZ);
    await alice.ask({ ...WEBSOCKET, id: 2 }, 'joined');
    expect(await alice.next('error')).toMatchObject({ code: 'media_lost', reply_to: 2 });
    bob.frames.length = 0;
    await hears(bob, BY_WEBRTC_HZ);
  });

  test('an empty binary message is enough, also right behind the join', async () => {
    const { gateway } = used;
    const bob = await enter(gateway, 'bob', PCM);
    const { alice } = await browserOf(gateway);
    await hears(bob, BY_WEBRTC_HZ);
    alice.send(WEBSOCKET);
    alice.sendAudio(Buffer.alloc(0));
    expect(await alice.next('media_changed')).toMatchObject({ kind: 'websocket' });
    expect(await bob.next('peer_changed')).toMatchObject({ peer: 'alice', kind: 'websocket' });
  });

  test('a binary message that completes the change is heard whole', async () => {
    const { gateway } = used;
    const bob = await enter(gateway, 'bob', PCM);
    const alice = await connect(gateway, { ...PCM, room: '__lobby__' });
    await goOver(alice, await opus(BY_WEBRTC_HZ));
    await hears(bob, BY_WEBRTC_HZ);
    await alice.ask(WEBSOCKET, 'joined');
    alice.sendAudio(Buffer.concat(pcmTone(BY_SOCKET_HZ, 0.5, 600)));
    const fifths = () =>
      Array.from({ length: Math.floor(bob.frames.length / 10) }, (_, i) =>
        peakHz(joinPcm(bob.frames.slice(10 * i, 10 * i + 10))),
      );
    const heard = () => fifths().filter((hz) => Math.abs(hz - BY_SOCKET_HZ) < 30).length;
    await eventually('0.4 of the 0.6 s, and what is cut off at both ends', () => heard() >= 2);
  });

  test('one that produces nothing goes over at once, and with all its budget spent is where it went', async () => {
    const { gateway } = used;
    const bob = await enter(gateway, 'bob');
    const alice = await connect(gateway, { room: '__lobby__' });
    for (let i = 0; i < 12; i += 1) {
      alice.send({ ...WEBRTC });
      alice.send({ ...WEBSOCKET });
    }
    await alice.ask({ ...WEBRTC, id: 'last' }, 'joined');
    await alice.until('the last', () => ofType(alice, 'joined').find((each) => each.reply_to));
    // The first was no change, and the others wait for a packet until the next gives them up.
    expect(ofType(alice, 'media_changed')).toHaveLength(1);
    expect(await bob.next('peer_changed')).toMatchObject({ peer: 'alice', kind: 'websocket' });
    expect(await peersIn(gateway)).toEqual({ websocket: 2, webrtc: 0 });
    await alice.ask({ type: 'leave' }, 'left');
    await eventually('all is let go but of bob', async () => (await gateway.countRouters()) === 1);
  });

  test('a producer that is paused is a client that is muted; muted stays muted both ways', async () => {
    const { gateway } = used;
    const bob = await enter(gateway, 'bob', PCM);
    const { alice } = await browserOf(gateway);
    const { producer_id } = await alice.next('produced');
    await hears(bob, BY_WEBRTC_HZ);
    await alice.ask({ type: 'pause_producer', producer_id }, 'producer_paused');
    await alice.ask(WEBSOCKET, 'joined');
    const from = bob.frames.length;
    keep(keepPlaying(alice, await opus(BY_SOCKET_HZ)));
    await alice.next('media_changed');
    expect(await alice.next('configured')).toMatchObject({ mute: true });
    await goOver(alice, await opus(BY_WEBRTC_HZ));
    await alice.until('both', () => ofType(alice, 'media_changed')[1]);
    await bob.until('both', () => ofType(bob, 'peer_changed')[2]);
    expect(ofType(bob, 'peer_changed').map(({ muted, kind }) => muted ?? kind)).toEqual([
      true,
      'websocket',
      'webrtc',
    ]);
    const heard = bob.frames.slice(from).map((frame) => joinPcm([frame]));
    const loudest = Math.max(0, ...heard.map((sound) => amplitudeOf(sound, BY_SOCKET_HZ)));
    expect(loudest).toBeLessThan(0.1);
    bob.frames.length = 0;
    await alice.ask({ type: 'configure', mute: false }, 'configured');
    await hears(bob, BY_WEBRTC_HZ);
    await bob.until('unmuted', () =>
      ofType(bob, 'peer_changed').find(({ muted }) => muted === false),
    );
  });

  test('the media worker dies meanwhile: the client goes over all the same, and is heard', async () => {
    const gateway = await openGateway();
    const bob = await enter(gateway, 'bob', PCM);
    const { alice } = await browserOf(gateway);
    await hears(bob, BY_WEBRTC_HZ);
    await alice.ask(WEBSOCKET, 'joined');
    for (const pid of gateway.mediaWorkerPids()) process.kill(pid, 'SIGKILL');
    await alice.next('media_restarted');
    keep(keepPlaying(alice, await opus(BY_SOCKET_HZ)));
    expect(await alice.next('media_changed')).toMatchObject({ kind: 'websocket' });
    await hears(bob, BY_SOCKET_HZ);
    expect(await peersIn(gateway)).toEqual({ websocket: 2, webrtc: 0 });
  });

  test('a browser is told when its packets cease to come, and when they come again', async () => {
    const gateway = await openGateway({}, OFTEN);
    const bob = await enter(gateway, 'bob', PCM);
    const { alice, browser } = await browserOf(gateway);
    const { producer_id } = await alice.next('produced');
    const flows = () => ofType(alice, 'rtp_flow').map(({ state }) => state);
    await hears(bob, BY_WEBRTC_HZ);
    await eventually('nothing but packets', () => flows().at(-1) !== 'stopped');
    const from = flows().length;
    browser.stopTalking();
    expect(await alice.until('stopped', () => flows()[from])).toBe('stopped');
    browser.talk(await opus(BY_WEBRTC_HZ));
    expect(await alice.until('flowing', () => flows()[from + 1])).toBe('flowing');
    await alice.ask({ type: 'pause_producer', producer_id }, 'producer_paused');
  });

  test('a browser that comes back is told whether its packets come', async () => {
    const gateway = await openGateway({ RESUME_MS: '15000' }, OFTEN);
    const bob = await enter(gateway, 'bob', PCM);
    const { alice, browser } = await browserOf(gateway);
    await hears(bob, BY_WEBRTC_HZ);
    const told = (client: TestClient, state: string) =>
      client.until(state, () => ofType(client, 'rtp_flow').find((flow) => flow.state === state));
    const comeBack = async (client: TestClient) => {
      const { session_id, resume_token } = await client.next('welcome');
      client.vanish();
      const session = { session_id, resume_token };
      return connect(gateway, { peer: 'alice', room: '__lobby__', ...session });
    };
    browser.stopTalking();
    await told(alice, 'stopped');
    const again = await comeBack(alice);
    expect(await again.next('rtp_flow')).toMatchObject({ state: 'stopped' });
    browser.talk(await opus(BY_WEBRTC_HZ));
    await told(again, 'flowing');
    const last = await comeBack(again);
    expect(await last.next('rtp_flow')).toMatchObject({ state: 'flowing' });
  });
});

test('a token that does not allow to publish: it is enough that the browser can hear', async () => {
  const { gateway } = used;
  const bob = await enter(gateway, 'bob');
  keep(keepPlaying(bob, await opus(BOB_HZ)));
  const response = await fetch(`${gateway.url}/api/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ peer: 'alice', rooms: '*', ttl_seconds: 60, publish: false }),
  });
  const { token } = (await response.json()) as { token: string };
  const alice = await connect({ url: gateway.url }, { token });
  await alice.next('joined');
  const { webrtc } = await alice.ask(WEBRTC, 'joined');
  const browser = keep(new WebRtcClient(alice, webrtc));
  await browser.hear();
  expect(await alice.next('media_changed')).toMatchObject({ kind: 'webrtc' });
  await eventually('it hears bob', () => browser.heard.some(({ peer }) => peer === 'bob'));
  await alice.ask(WEBSOCKET, 'joined');
  await alice.until('back', () => ofType(alice, 'media_changed')[1]);
});
