import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { RequestError } from '../../../../packages/client/src/errors.ts';
import type { AudioParts } from '../../../../packages/client/src/room-audio.ts';
import type { RemotePeer } from '../../../../packages/client/src/state.ts';
import { WebRtcAudio } from '../../../../packages/client/src/webrtc/webrtc-audio.ts';
import { WebSocketAudio } from '../../../../packages/client/src/websocket/websocket-audio.ts';
import { parseClientMessage } from '../../../../src/protocol/client-messages.ts';
import { MAX_MESSAGE_BYTES } from '../../../../src/protocol/message-size.ts';

/** Audio of the browser client that is not open yet, or never. Node has neither WebRTC nor Web Audio. */

let contexts: number;
let frames: number;
let parts: AudioParts;

beforeEach(() => {
  contexts = 0;
  frames = 0;
  const refuse = (): never => {
    contexts += 1;
    throw new Error('Node has no sound.');
  };
  class NoContext {
    readonly state = refuse();
  }
  vi.stubGlobal('AudioContext', NoContext);
  parts = {
    joined: { type: 'joined', room: 'kitchen', speaker: 1, peers: [], webrtc: {} },
    peers: new Map(),
    wire: { sendFrame: () => (frames += 1) },
    settings: { microphone: null, muted: false },
    assets: {},
    handlers: {},
  } as unknown as AudioParts;
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test('WebRTC that is closed opens no silence to prove itself with', async () => {
  const audio = new WebRtcAudio(parts);
  await expect(audio.opened()).rejects.toThrow('device not supported');
  audio.close();
  await audio.prove();
  expect(contexts).toBe(0);
});

test('sound over the WebSocket that is closed sends nothing to prove itself with', async () => {
  const audio = new WebSocketAudio(parts);
  await expect(audio.opened()).rejects.toThrow('Node has no sound.');
  audio.close();
  await audio.prove();
  expect({ contexts, frames }).toEqual({ contexts: 1, frames: 0 });
});

/** Audio whose gateway is the test: volumes of requests, and what answers them in turn. */
function openSlider() {
  const sent: Record<string, number>[] = [];
  const answers: PromiseWithResolvers<object>[] = [];
  const request = ({ volume }: { volume: Record<string, number> }) => {
    sent.push(volume);
    const answer = Promise.withResolvers<object>();
    answers.push(answer);
    return answer.promise;
  };
  const volumes = new Map<string, number>();
  const settings = { ...parts.settings, muted: false, toldMuted: false, volumes };
  const wire = { sendFrame: () => true, request } as unknown as AudioParts['wire'];
  const peers = new Map<string, RemotePeer>();
  const enter = (peer: string) => peers.set(peer, { peer, kind: 'websocket', muted: false });
  enter('bob');
  enter('eve');
  const audio = new WebSocketAudio({ ...parts, peers, wire, settings });
  audio.opened().catch(() => undefined); // Node has no sound.
  const slide = async (peer: string, gain: number) => {
    volumes.set(peer, gain);
    const told = audio.applyVolume();
    await Promise.resolve();
    return told;
  };
  return { audio, sent, answers, slide, volumes, peers, enter, settings };
}

test('volumes that change while one is being told are told together, with their last values', async () => {
  const { audio, sent, answers, slide } = openSlider();
  await audio.applySettings();
  const told = [slide('bob', 0)];
  await vi.waitFor(() => expect(sent).toEqual([{ bob: 0 }]), { timeout: 10_000 });
  for (let step = 1; step <= 50; step++) told.push(slide('bob', step / 50), slide('eve', 2));
  await nextTurn();
  expect(sent).toHaveLength(1);
  answers[0]!.resolve({});
  await vi.waitFor(() => expect(sent).toEqual([{ bob: 0 }, { bob: 1, eve: 2 }]), {
    timeout: 10_000,
  });
  answers[1]!.resolve({});
  await Promise.all(told);
  expect(sent).toHaveLength(2);
});

test('a volume that the gateway refuses is told again with the next', async () => {
  const { audio, sent, answers, slide } = openSlider();
  await audio.applySettings();
  const [first, second] = [slide('bob', 0), slide('eve', 2)];
  const refusal = first.catch((error: unknown) => error);
  await vi.waitFor(() => expect(answers).toHaveLength(1), { timeout: 10_000 });
  const third = slide('bob', 1);
  answers[0]!.reject(new Error('No.'));
  expect(await refusal).toMatchObject({ message: 'No.' });
  await expect(second).rejects.toThrow('No.');
  await vi.waitFor(() => expect(sent.at(-1)).toEqual({ bob: 1, eve: 2 }), { timeout: 10_000 });
  answers[1]!.resolve({});
  await third;
});

test('a mute is told alone when the gateway refuses the volumes with it', async () => {
  const { audio, sent, answers, volumes, settings } = openSlider();
  Object.assign(settings, { muted: true, pendingMutes: 0 });
  volumes.set('bob', 0.5);
  const refused = audio.applySettings().catch((error: unknown) => error);
  expect(sent).toEqual([{ bob: 0.5 }]);
  answers[0]!.reject(new RequestError('bad_message', 'No.', false));
  await vi.waitFor(() => expect(sent).toEqual([{ bob: 0.5 }, undefined]), { timeout: 10_000 });
  answers[1]!.resolve({});
  expect(await refused).toMatchObject({ code: 'bad_message' });
  expect(settings.toldMuted).toBe(true);
});

test('volumes are told before their peers come, and once for a session', async () => {
  const { audio, sent, answers, volumes, peers, enter, settings } = openSlider();
  volumes.set('bob', 2).set('guest', 0);
  const applied = audio.applySettings();
  expect(sent).toEqual([{ bob: 2, guest: 0 }]);
  answers[0]!.resolve({});
  await applied;
  enter('guest');
  peers.delete('bob');
  await audio.applySettings();
  expect(sent).toHaveLength(1);
  volumes.delete('bob');
  void audio.applySettings();
  expect(sent.slice(1)).toMatchObject([{ bob: 1 }]);
  settings.toldVolumes = undefined; // another session
  void audio.applySettings();
  expect(sent.slice(2)).toEqual([{ guest: 0 }]);
});

test.each([
  ['ASCII', 'a'.repeat(124)],
  ['characters of four bytes', '🎧'.repeat(124)],
])(
  'volumes of hundreds of long names in %s take several messages, none of them too long',
  async (_, name) => {
    const { audio, sent, answers, volumes, slide } = openSlider();
    for (let i = 0; i < 499; i += 1) volumes.set(`${name} ${i}`, 0.123_456_789);
    const applied = audio.applySettings();
    const slid = slide('bob', 0.5);
    for (let i = 0; i < answers.length; i += 1) {
      const message = JSON.stringify({ type: 'configure', id: '1', mute: false, volume: sent[i] });
      expect(Buffer.byteLength(message)).toBeLessThan(MAX_MESSAGE_BYTES);
      answers[i]!.resolve({});
      await nextTurn();
    }
    await Promise.all([applied, slid]);
    expect(Object.assign({}, ...sent)).toEqual(Object.fromEntries(volumes));
  },
);

test('the gateway keeps few volumes, however many peers come and go', async () => {
  const { audio, sent, answers, slide, volumes, peers, enter } = openSlider();
  const guests = Array.from({ length: 1001 }, (_, i) => `guest ${i}`);
  for (const guest of guests) volumes.set(guest, 0.5);
  enter(guests[0]!);
  const applied = audio.applySettings();
  answers[0]!.resolve({});
  await applied;
  expect(sent).toEqual([{ 'guest 0': 0.5 }]);
  volumes.clear();
  const kept = new Map<string, number>(Object.entries(sent[0]!));
  for (const guest of guests) {
    peers.clear();
    enter(guest);
    void slide(guest, 0.5);
    await nextTurn();
    const volume = sent.at(-1)!;
    expect(() => parseClientMessage(JSON.stringify({ type: 'configure', volume }))).not.toThrow();
    for (const [peer, gain] of Object.entries(volume)) {
      if (gain === 1) kept.delete(peer);
      else kept.set(peer, gain);
    }
    expect(kept.size).toBeLessThanOrEqual(1000);
    answers.at(-1)!.resolve({});
  }
  expect([...kept]).toEqual([['guest 1000', 0.5]]);
});
