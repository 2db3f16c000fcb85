import type { ClientState } from 'partyline-client';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Page, type Entry } from '../../../web/page-state.ts';
import { Visit } from '../../../web/visit.ts';

/** The page while a client changes. The client is the test's. */

type Listener = (detail: unknown) => void;
const fake = vi.hoisted((): { become: Listener; tell: Listener } => ({
  become: () => undefined,
  tell: () => undefined,
}));
vi.mock('../../../web/sound-files.ts', () => ({ SOUND_FILES: {} }));
vi.mock('partyline-client', () => ({
  Microphone: { open: () => new Promise(() => undefined) },
  PartylineClient: class {
    readonly peer = 'ada';
    readonly transport = 'webrtc';
    readonly muted = false;
    on(type: string, listener: Listener): void {
      if (type === 'change') fake.become = listener;
      if (type === 'fault') fake.tell = listener;
    }
    volumeOf = () => 1;
    connect = () => Promise.resolve();
    leave = () => Promise.resolve();
    close = () => undefined;
    setSpeaker = (id: string) =>
      id === 'gone' ? Promise.reject(new DOMException('', 'NotFoundError')) : Promise.resolve();
  },
}));

const ENTRY: Entry = {
  apiKey: '',
  room: 'kitchen',
  peer: 'ada',
  listenOnly: true,
  isTrial: false,
  invite: '',
};
const BOB = { peer: 'bob', kind: 'webrtc', muted: false } as const;
const IN_ROOM = {
  name: 'in_room',
  room: 'kitchen',
  peers: new Map([['bob', BOB]]),
  speaking: new Map(),
  transport: 'webrtc',
  isInterrupted: false,
  isPlaybackBlocked: false,
} as const satisfies ClientState;

const reconnecting = (): ClientState => {
  const reason = { code: 'network', closeCode: 1006, message: 'Lost.', retryable: true };
  return { name: 'reconnecting', hasAudio: false, reason, attempt: 1, retryAt: Date.now() };
};

let draws: number;
let page: Page;
let visit: Visit;
const become = (state: ClientState) => fake.become(state);

beforeEach(() => {
  vi.stubGlobal('location', { href: 'https://voice.example.com/', search: '' });
  vi.stubGlobal('document', { baseURI: 'https://voice.example.com/' });
  draws = 0;
  page = new Page(() => (draws += 1));
  visit = new Visit(page, ENTRY, undefined, () => undefined);
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test('every change of the client draws the page once', () => {
  become(IN_ROOM);
  expect(draws).toBe(1);
  become({ ...IN_ROOM, speaking: new Map([['bob', -20]]) });
  expect(draws).toBe(2);
  expect(page.state).toMatchObject({ people: [{ peer: 'ada' }, { peer: 'bob', levelDbov: -20 }] });
  become({ ...IN_ROOM, peers: new Map() });
  expect(draws).toBe(3);
  expect(page.state).toMatchObject({ comings: 'bob left.', isAlone: true, microphone: 'off' });
  become(reconnecting());
  expect(draws).toBe(4);
});

const UNLOADED = 'Unable to load a worklet module.';
const UNHEARD = { ...IN_ROOM, trouble: `Nobody hears you: ${UNLOADED}` };

test.each([`You cannot be heard: ${UNLOADED}`, UNLOADED])(
  'the notice "%s" goes once the client is heard',
  (fault) => {
    become(IN_ROOM);
    fake.tell(fault);
    become(IN_ROOM);
    expect(page.state.notice?.words).toBe(fault);
    become(UNHEARD);
    become({ ...UNHEARD, peers: new Map() });
    expect(page.state.notice?.words).toBe(fault);
    draws = 0;
    become(IN_ROOM);
    expect(page.state.notice).toBeUndefined();
    expect(draws).toBe(1);
  },
);

test('a notice of something else stays when the client is heard', () => {
  become(UNHEARD);
  fake.tell('The settings were refused: No.');
  become(IN_ROOM);
  expect(page.state.notice?.words).toBe('The settings were refused: No.');
});

test('Play is there while the browser waits for a click', () => {
  become({ ...IN_ROOM, isPlaybackBlocked: true, trouble: 'The browser waits.' });
  expect(page.state.room).toMatchObject({ status: 'The browser waits.' });
  expect(page.state.room?.play).toBeDefined();
  become(IN_ROOM);
  expect(page.state.room).not.toHaveProperty('play');
});

test('a guest, who has no key, cannot invite others', () => {
  const mayInvite = (invite: string) => {
    visit = new Visit(page, { ...ENTRY, invite }, undefined, () => undefined);
    become({ ...IN_ROOM, peers: new Map() });
    return page.state.room?.mayInvite;
  };
  expect(mayInvite('')).toBe(true);
  expect(mayInvite('ey')).toBe(false);
  become(reconnecting());
  expect(page.state.room).toMatchObject({ isAway: true, mayInvite: false });
});

test.each([
  ['the button', { isTrial: true }],
  ['the name of its room', { room: '__echo__' }],
])('Hear yourself by %s: nobody is missing, and nobody can be invited', (_, entry) => {
  visit = new Visit(page, { ...ENTRY, ...entry }, undefined, () => undefined);
  become({ ...IN_ROOM, peers: new Map() });
  expect(page.state).toMatchObject({
    room: { title: 'Hear yourself', status: expect.stringMatching(/^Speak/), mayInvite: false },
    isAlone: false,
  });
});

test('a key is marked as wrong if there is no token for it, and not after a close with 4401', () => {
  const reason = { code: 'unauthorized', message: 'Withdrawn.', retryable: false };
  become({ name: 'closed', reason: { ...reason, closeCode: 1006 } });
  expect(page.state).toMatchObject({ isKeyWrong: true, error: expect.stringContaining('API key') });
  visit = new Visit(page, ENTRY, undefined, () => undefined);
  become({ name: 'closed', reason: { ...reason, closeCode: 4401 } });
  expect(page.state).toMatchObject({ isKeyWrong: false, error: expect.stringMatching(/^With/) });
});

test('speakers are shown as chosen once they are in use', async () => {
  visit.chooseSpeaker('headset');
  expect(page.state.devices.speakers).toBe('');
  await new Promise(setImmediate);
  expect(page.state.devices.speakers).toBe('headset');
  visit.chooseSpeaker('gone');
  await new Promise(setImmediate);
  expect(page.state.devices.speakers).toBe('headset');
  expect(page.state.notice?.words).toContain('The previous speakers stay in use.');
});

test('after a reconnect while the browser asks for the microphone, the page waits for the microphone', async () => {
  visit = new Visit(page, { ...ENTRY, listenOnly: false }, undefined, () => undefined);
  void visit.start();
  await new Promise(setImmediate);
  expect(page.state.progress).toBe('Waiting for the microphone…');
  become(reconnecting());
  expect(page.state.progress).toContain('Lost.');
  become({ name: 'lobby' });
  expect(page.state.progress).toBe('Waiting for the microphone…');
});
