import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { guestName } from '../../src/accounts/invites.ts';
import { useGateway } from '../support/use-gateway.ts';

const OPERATOR_KEY = 'operator-key-of-the-tests';
const REQUESTS_PER_ACCOUNT = 40;
const inUse = useGateway({
  OPERATOR_KEY,
  REQUESTS_PER_ACCOUNT: String(REQUESTS_PER_ACCOUNT),
  AUTH_FAILURES_PER_ADDRESS: '10000',
});
const { connect } = inUse;

type Answer = { status: number; headers: Headers; body: Record<string, string> };

async function post(
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${inUse.gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = (await response.json()) as Record<string, string>;
  return { status: response.status, headers: response.headers, body: text };
}

type NewKey = { key_id: string; api_key: string };
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

/** An account of its own, so that no test spends the budget of another. */
async function newAccount(): Promise<{ id: number; key: string; keyId: string }> {
  const asked = { name: 'Ada', email: 'ada@example.org', plan: 'pro' };
  const { body } = await post('/api/admin/accounts', asked, bearer(OPERATOR_KEY));
  const { account, ...made } = body as unknown as { account: { id: number } } & NewKey;
  return { id: account.id, key: made.api_key, keyId: made.key_id };
}

const asOperator = (method: string, path: string, body?: object) =>
  fetch(`${inUse.gateway.url}/api/admin/accounts/${path}`, {
    method,
    headers: { ...bearer(OPERATOR_KEY), ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });

async function invite(key: string, body: object = {}): Promise<string> {
  const made = await post('/api/invites', { room: 'kitchen', ...body }, bearer(key));
  expect(made.status).toBe(201);
  return made.body['invite']!;
}

const redeem = (text: string, name?: string) =>
  post('/api/invites/redeem', { invite: text, ...(name !== undefined && { name }) });

const connectAs = ({ token, peer, room }: Record<string, string>) =>
  connect({ room: room!, peer: peer!, token: token!, api_key: undefined! });

describe('an invitation', () => {
  test('is a link to the page with the invitation where browsers do not send it', async () => {
    const { key } = await newAccount();
    const { status, body } = await post('/api/invites', { room: 'a & b' }, bearer(key));
    expect(status).toBe(201);
    const url = new URL(body['url']!);
    expect(url.origin).toBe(inUse.gateway.url);
    expect(new URLSearchParams(url.hash.slice(1)).get('invite')).toBe(body['invite']);
    const lifeMs = Date.parse(body['expires_at']!) - Date.now();
    expect(lifeMs).toBeGreaterThan(86_390_000);
    expect(lifeMs).toBeLessThanOrEqual(86_400_000);
  });

  test('lets everybody who has it into its room, each under a name of its own, and into no other', async () => {
    const { key } = await newAccount();
    const link = await invite(key);
    const [ada, other] = [await redeem(link, 'Ada'), await redeem(link, 'Ada')];
    const nameless = await redeem(link);
    expect(ada.body).toMatchObject({ room: 'kitchen', peer: expect.stringMatching(/^Ada-.{8}$/) });
    expect(nameless.body['peer']).toMatch(/^guest-/);
    const first = await connectAs(ada.body);
    await first.next('joined');
    const second = await connectAs(other.body);
    expect(await second.next('joined')).toMatchObject({ peers: [{ peer: ada.body['peer'] }] });
    expect(await first.next('peer_joined')).toMatchObject({ peer: other.body['peer'] });
    const elsewhere = { type: 'join', room: 'bedroom' };
    expect(await second.ask(elsewhere, 'error')).toMatchObject({ code: 'forbidden' });
  });

  test.each([
    ['x'.repeat(1000), 'x'.repeat(119)],
    [
      `${'a'.repeat(115)}\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}`,
      'a'.repeat(115),
    ],
  ])('lets a guest with a long name in under its beginning', async (name, kept) => {
    const { key } = await newAccount();
    const { status, body } = await redeem(await invite(key), name);
    expect(status).toBe(200);
    expect(body['peer']!.slice(0, -9)).toBe(kept);
    const client = await connectAs(body);
    await client.next('joined');
  });

  test('with publish false lets them listen', async () => {
    const { key } = await newAccount();
    const { body } = await redeem(await invite(key, { publish: false }));
    const client = await connectAs(body);
    await client.next('joined');
    client.sendAudio(Buffer.alloc(80, 0xfc));
    expect(await client.next('error')).toMatchObject({ code: 'forbidden' });
  });

  test('is no token, and a token is no invitation', async () => {
    const { key } = await newAccount();
    const link = await invite(key);
    const client = await connectAs({ token: link, peer: 'guest', room: 'kitchen' });
    expect(await client.closed).toBe(4401);
    const { body } = await redeem(link);
    expect((await redeem(body['token']!)).status).toBe(404);
  });

  test('is not found any more when it has expired', async () => {
    const { key } = await newAccount();
    const link = await invite(key, { expires_in_s: 1 });
    await expect.poll(async () => (await redeem(link)).status).toBe(404);
    expect((await redeem(link)).body).toMatchObject({ code: 'not_found' });
  });

  test('ends with its key, and is refused while its account is suspended', async () => {
    const { id, key, keyId } = await newAccount();
    const link = await invite(key);
    await asOperator('PATCH', String(id), { status: 'suspended' });
    expect(await redeem(link)).toMatchObject({ status: 403, body: { code: 'forbidden' } });
    await asOperator('PATCH', String(id), { status: 'active' });
    expect((await redeem(link)).status).toBe(200);
    expect((await asOperator('DELETE', `${id}/keys/${keyId}`)).status).toBeLessThan(300);
    expect((await redeem(link)).status).toBe(404);
  });

  test('that is redeemed in a loop leaves the requests of the account alone', async () => {
    const { key } = await newAccount();
    const link = await invite(key);
    const answers = [];
    for (let turn = 0; turn <= REQUESTS_PER_ACCOUNT; turn += 1) answers.push(await redeem(link));
    const last = answers.at(-1)!;
    expect(last).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
    expect(Number(last.headers.get('retry-after'))).toBeGreaterThan(0);
    const me = await fetch(`${inUse.gateway.url}/api/me`, { headers: bearer(key) });
    expect(me.status).toBe(200);
  });

  test('of a suspended account that is redeemed in a loop is refused without being looked up', async () => {
    const { id, key } = await newAccount();
    const link = await invite(key);
    await asOperator('PATCH', String(id), { status: 'suspended' });
    const answers = [];
    for (let turn = 0; turn <= REQUESTS_PER_ACCOUNT; turn += 1) answers.push(await redeem(link));
    expect(answers[0]).toMatchObject({ status: 403, body: { code: 'forbidden' } });
    expect(answers.at(-1)).toMatchObject({ status: 429, body: { code: 'rate_limited' } });
  });
});

describe('bad requests', () => {
  test.each([
    [{}],
    [{ room: '' }],
    [{ room: '__x' }],
    [{ room: '__echo__' }],
    [{ room: 'a', expires_in_s: 0 }],
    [{ room: 'a', expires_in_s: 604_801 }],
    [{ room: 'a', expires_in_s: 1.5 }],
    [{ room: 'a', publish: 'no' }],
    [{ room: 'a', peer: 'ada' }],
    ['{'],
  ])('POST /api/invites with %j is 400', async (body) => {
    const { status } = await post('/api/invites', body, bearer(inUse.gateway.apiKey));
    expect(status).toBe(400);
  });

  test('POST /api/invites without a key is 401, whatever the body', async () => {
    expect((await post('/api/invites', '{')).status).toBe(401);
  });

  test.each([
    [{}],
    [{ invite: '' }],
    [{ invite: 'x', name: '' }],
    [{ invite: 'x', name: '__x' }],
    [{ invite: 'x', name: 'a\nb' }],
    [{ invite: 'x', room: 'a' }],
    [{ invite: 'x'.repeat(4001) }],
    ['{'],
  ])('POST /api/invites/redeem with %j is 400', async (body) => {
    expect((await post('/api/invites/redeem', body)).status).toBe(400);
  });

  test('a body over 8 KB from a stranger is not read', async () => {
    const { status } = await post('/api/invites/redeem', { invite: 'x'.repeat(9000) });
    expect(status).toBe(413);
  });

  test('any text, and any change of an invitation: not found, or the same invitation', async () => {
    const { key } = await newAccount();
    const link = await invite(key);
    const changed = fc
      .tuple(fc.nat(link.length - 1), fc.string({ minLength: 1, maxLength: 3 }))
      .map(([at, text]) => link.slice(0, at) + text + link.slice(at + text.length));
    await fc.assert(
      fc.asyncProperty(fc.oneof(changed, fc.string({ minLength: 1 })), async (text) => {
        // The last bits of a signature's Base64 mean nothing.
        expect(await redeem(text)).toBeOneOf([
          expect.objectContaining({
            status: 200,
            body: expect.objectContaining({ room: 'kitchen' }),
          }),
          expect.objectContaining({ status: 404 }),
          expect.objectContaining({ status: 429 }),
        ]);
      }),
      { seed: 20_261_122, numRuns: 60 },
    );
  });
});

describe('from a page of another origin', () => {
  const origin = { origin: 'https://elsewhere.example' };
  const preflight = (path: string) =>
    fetch(`${inUse.gateway.url}${path}`, {
      method: 'OPTIONS',
      headers: {
        ...origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type',
      },
    });
  const ALLOWED = 'access-control-allow-origin';

  test('an invitation can be redeemed: asked before, answered, and refused readably', async () => {
    const asked = await preflight('/api/invites/redeem');
    expect(asked.status).toBe(204);
    expect(asked.headers.get(ALLOWED)).toBe('*');
    expect(asked.headers.get('access-control-allow-methods')).toContain('POST');
    expect(asked.headers.get('access-control-allow-headers')).toContain('content-type');
    const link = await invite((await newAccount()).key);
    const good = await post('/api/invites/redeem', { invite: link }, origin);
    expect([good.status, good.headers.get(ALLOWED)]).toEqual([200, '*']);
    const bad = await post('/api/invites/redeem', { invite: 'x' }, origin);
    expect([bad.status, bad.headers.get(ALLOWED)]).toEqual([404, '*']);
  });

  test.each(['/api/invites', '/api/tokens', '/api/me'])('%s cannot be read', async (path) => {
    const asked = await preflight(path);
    expect(asked.headers.get(ALLOWED)).toBeNull();
    const answer = await post(path, { room: 'a' }, { ...origin, ...bearer(inUse.gateway.apiKey) });
    expect(answer.headers.get(ALLOWED)).toBeNull();
  });
});

test('names of guests are names of peers, however long theirs is', () => {
  for (const name of ['a', 'x'.repeat(128), '😀'.repeat(128)]) {
    const guest = Array.from(guestName(name));
    expect(guest.length).toBeLessThanOrEqual(128);
    expect(guest.join('')).toMatch(/-[0-9a-z]{8}$/);
  }
  expect(new Set(Array.from({ length: 1000 }, () => guestName('Ada'))).size).toBe(1000);
});
