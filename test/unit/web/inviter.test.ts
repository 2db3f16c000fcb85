import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Inviter } from '../../../web/inviter.ts';
import { Page, type Entry } from '../../../web/page-state.ts';

/** The button Invite, pressed while the gateway takes its time. The gateway is the test's. */

const ENTRY: Entry = {
  apiKey: 'key',
  room: 'kitchen',
  peer: 'ada',
  listenOnly: true,
  isTrial: false,
  invite: '',
};

let answers: PromiseWithResolvers<Response>[];
let page: Page;
let ending: AbortController;
let inviter: Inviter;

beforeEach(() => {
  answers = [];
  vi.stubGlobal('document', { baseURI: 'https://voice.example.com/' });
  vi.stubGlobal('fetch', () => {
    const answer = Promise.withResolvers<Response>();
    answers.push(answer);
    return answer.promise;
  });
  page = new Page(() => undefined);
  ending = new AbortController();
  inviter = new Inviter(page, ENTRY, ending.signal);
});
afterEach(() => {
  vi.unstubAllGlobals();
});

const made = (invite: string) =>
  Response.json({ invite, expires_at: new Date(Date.UTC(2026, 0, 2)).toISOString() });

test('a second press while an invitation is being made makes no other', async () => {
  const invited = [inviter.invite(), inviter.invite()];
  expect(answers).toHaveLength(1);
  answers[0]!.resolve(made('first'));
  await Promise.all(invited);
  expect(page.state.invitation?.url).toBe('https://voice.example.com/#invite=first');
  const again = inviter.invite();
  answers[1]!.resolve(made('second'));
  await again;
  expect(page.state.invitation?.url).toBe('https://voice.example.com/#invite=second');
});

test.each([
  ['a failure', () => answers[0]!.reject(new TypeError('No network.'))],
  ['an invitation', () => answers[0]!.resolve(made('late'))],
])('%s after the visit has ended is not shown', async (_, answer) => {
  const invited = inviter.invite();
  ending.abort();
  answer();
  await invited;
  expect(page.state).toMatchObject({ notice: undefined, invitation: undefined });
});

test('a failure during the visit is shown, and the button works again', async () => {
  const invited = inviter.invite();
  answers[0]!.reject(new TypeError('No network.'));
  await invited;
  expect(page.state.notice).toBeDefined();
  void inviter.invite();
  expect(answers).toHaveLength(2);
});
