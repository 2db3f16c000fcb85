import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { readSettings } from '../../config/settings.ts';
import { DEFAULT_TIMINGS, type TimingOverrides } from '../../config/timings.ts';
import { parseClientMessage } from '../../src/protocol/client-messages.ts';
import { connectionRate, costOf } from '../../src/session/message-budget.ts';
import { countCommands } from '../support/count-commands.ts';
import { eventually } from '../support/gateway.ts';
import { useGateway } from '../support/use-gateway.ts';
import { useStack } from '../support/use-stack.ts';

const stack = useStack();
const { openRedis, openGateway, openNodes, openStore, createAccount, connect: connectTo } = stack;
const { connect } = useGateway({}, { budgets: { tellAfterMs: 50, closeAfterMs: 1000 } });

/**
 * The number of things that a client may be allowed until it is closed: on a machine on which that takes longer, its budget allows more.
 * @param mostInTwoSeconds number that is allowed in the first two seconds
 * @param perSecond number that is allowed in each second after that
 */
const mostSince = (startMs: number, mostInTwoSeconds: number, perSecond: number) =>
  mostInTwoSeconds + perSecond * Math.max(0, (performance.now() - startMs) / 1000 - 2);

describe('text messages beyond the budget', () => {
  test('are read more slowly, then the client is told, and closed with 4429 if it goes on', async () => {
    const flooder = await connect({ peer: 'flooder' });
    const configure = { type: 'configure', audio: 'pcm_s16le;rate=44100;channels=1' };
    const startMs = performance.now();
    for (let sent = 0; sent < 3000; sent += 1) flooder.send(configure);
    const told = await flooder.next('error');
    expect(told).toMatchObject({ code: 'rate_limited', retryable: true });
    expect(told.retry_after_ms).toBeGreaterThan(0);
    expect(await flooder.closed).toBe(4429);
    const answers = flooder.messages.filter(({ type }) => type === 'configured');
    expect(answers.length).toBeGreaterThanOrEqual(20);
    // A change of the format costs 5 of the 20 tokens of a second.
    expect(answers.length).toBeLessThan(mostSince(startMs, 60, 4));
  });

  test('are not even parsed while many wait, and those that are no messages are told in their turn', async () => {
    const parse = vi.spyOn(JSON, 'parse');
    const flooder = await connect({ peer: 'flooder' });
    for (let id = 0; id < 3000; id += 1) flooder.send({ type: 'configure', volume: {}, id });
    await flooder.closed;
    const texts = parse.mock.calls.map(([text]) => text);
    parse.mockRestore();
    expect(texts.filter((text) => text.includes('"type":"configure"')).length).toBeLessThan(300);

    const client = await connect();
    const configure = { type: 'configure', volume: {} };
    client.sendTogether([
      ...Array.from({ length: 90 }, (_, id) => ({ ...configure, id })),
      { type: 'dance', id: 'no message' },
      { ...configure, id: 'last' },
    ]);
    await expect.poll(() => client.messages.at(-1)).toMatchObject({ reply_to: 'last' });
    expect(client.messages.at(-2)).toMatchObject({ code: 'bad_message', reply_to: 'no message' });
  });

  test('leave a client alone that stops when it is told: each is answered, in order', async () => {
    const client = await connect();
    for (let id = 0; id < 115; id += 1) client.send({ type: 'configure', volume: {}, id });
    expect(await client.next('error')).toMatchObject({ code: 'rate_limited', retryable: true });
    const answered = () => client.messages.filter(({ type }) => type === 'configured');
    await expect.poll(() => answered().length).toBe(115);
    expect(answered().map(({ reply_to: id }) => id)).toEqual([...Array(115).keys()]);
    expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ room: 'a' });
  });

  test.each<[string, (index: number) => object]>([
    ['join of the room in which it is', () => ({ type: 'join', room: 'a' })],
    ['join of two rooms in turn', (index) => ({ type: 'join', room: index % 2 ? 'a' : 'b' })],
    ['join of ever new rooms', (index) => ({ type: 'join', room: `room ${index}` })],
    ['join as a browser', () => ({ type: 'join', room: 'a', media: 'webrtc' })],
  ])('%s, again and again, is one of them', async (_name, messageOf) => {
    const client = await connect({ room: 'a' });
    const startMs = performance.now();
    for (let sent = 0; sent < 300; sent += 1) client.send(messageOf(sent));
    expect(await client.closed).toBe(4429);
    const joins = client.messages.filter(({ type }) => type === 'joined');
    // A join costs 5 tokens.
    expect(joins.length).toBeLessThan(mostSince(startMs, 60, 4));
  });
});

test('pause_producer and resume_producer in turn, again and again: closed with 4429, and other nodes are told of few', async () => {
  const redis = await openRedis();
  const timings = { budgets: { tellAfterMs: 50, closeAfterMs: 1000 } };
  const [here, there] = await openNodes(2, {}, redis, timings);
  const store = await openStore(redis);
  const browser = await connectTo(here!, { peer: 'browser', room: '__lobby__' });
  const { webrtc } = await browser.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const listener = await connectTo(there!, { peer: 'listener', room: 'a' });
  const producer = {
    type: 'produce',
    transport_id: webrtc!.send_transport.id,
    kind: 'audio',
    rtp_parameters: {
      codecs: [{ mimeType: 'audio/opus', payloadType: 111, clockRate: 48_000, channels: 2 }],
      encodings: [{ ssrc: 1000 }],
    },
  };
  const { producer_id: id } = await browser.ask(producer, 'produced');
  await listener.next('joined');
  const publishes = async () => {
    const info = await store.run((client) => client.info('commandstats'));
    const calls = info.matchAll(/cmdstat_s?publish:calls=(\d+)/g);
    return [...calls].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const before = await publishes();
  const startMs = performance.now();
  for (let sent = 0; sent < 600; sent += 1) {
    browser.send({ type: sent % 2 ? 'resume_producer' : 'pause_producer', producer_id: id });
  }
  expect(await browser.closed).toBe(4429);
  // 100 tokens at once and 20 a second pay for 50 messages and 10 a second.
  expect((await publishes()) - before).toBeLessThan(mostSince(startMs, 120, 20));
  const changes = listener.messages.filter(({ type }) => type === 'peer_changed');
  expect(changes.length).toBeGreaterThan(0);
  expect(changes.length).toBeLessThan(mostSince(startMs, 100, 10));
  expect(await listener.ask({ type: 'join', room: 'b' }, 'joined')).toMatchObject({ room: 'b' });
});

describe('a member that does not read', () => {
  const LONGEST_NAME = '\u{1f600}'.repeat(128);
  /** Text that a client may leave unread, bytes. */
  const MAX_UNREAD_BYTES = 1 << 20;
  const { burst, perSecond } = connectionRate(readSettings({}).MESSAGES_PER_SECOND);
  const costOfText = (text: string) => costOf(parseClientMessage(text), text.length);
  const bytesOf = (message: object) => Buffer.byteLength(JSON.stringify(message));

  test.each<[string, (n: number) => object, (n: number) => 'joined' | 'left' | 'configured']>([
    [
      'joins and leaves',
      (n) => (n % 2 ? { type: 'join', room: 'a' } : { type: 'leave' }),
      (n) => (n % 2 ? 'joined' : 'left'),
    ],
    [
      'mutes and unmutes itself',
      (n) => ({ type: 'configure', mute: n % 2 === 0 }),
      () => 'configured',
    ],
  ])(
    'is not closed with 4490 because another member %s for as long as its budget allows',
    async (_name, messageOf, answerOf) => {
      const listener = await connect({ peer: 'listener', room: 'a' });
      await listener.next('joined');
      const mover = await connect({ peer: LONGEST_NAME, room: 'a' });
      await mover.next('joined');
      await listener.next('peer_joined');
      const before = listener.messages.length;
      listener.stopReading();
      let [sent, tokens] = [0, 0];
      for (; tokens < burst; sent += 1) {
        const text = JSON.stringify(messageOf(sent));
        tokens += costOfText(text);
        await mover.ask(text, answerOf(sent));
      }
      listener.readAgain();
      const told = () => listener.messages.slice(before);
      await expect.poll(() => told().length).toBe(sent);
      const bytes = told().reduce((sum, message) => sum + bytesOf(message), 0);
      expect(bytes).toBeGreaterThan(sent * Buffer.byteLength(LONGEST_NAME));
      // A client that answers no ping is closed with 4408 then; a stall is mostly noticed sooner.
      const { silentAfterMs } = DEFAULT_TIMINGS.sessions;
      const untilSilent = burst + (perSecond * silentAfterMs) / 1000;
      expect((bytes / tokens) * untilSilent).toBeLessThan(MAX_UNREAD_BYTES / 2);
      expect(await listener.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
    },
  );
});

test('a client whose recordings begin too often is told, and not closed if it stops', async () => {
  const client = await connect({ room: 'a', audio: 'ogg_opus' });
  await client.next('joined');
  const start = Buffer.from('4f6767530002', 'hex');
  for (let sent = 0; sent < 800; sent += 1) client.sendAudio(start);
  expect(await client.next('error')).toMatchObject({ code: 'rate_limited', retryable: true });
  expect(await client.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
  expect(client.messages.filter(({ type }) => type === 'error')).toHaveLength(1);
});

test('a client may send 900 pings at once', async () => {
  const client = await connect();
  client.sendControl('pings', 900);
  expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ room: 'a' });
  expect(client.messages.filter(({ type }) => type === 'error')).toEqual([]);
});

describe.each(['pings', 'pongs'] as const)('%s beyond the budget', (kind) => {
  test('leave a client alone that stops when it is told', async () => {
    const client = await connect();
    // A part that came after the pause would be more of them.
    client.sendControl(kind, 1500);
    expect(await client.next('error')).toMatchObject({ code: 'rate_limited', retryable: true });
    expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ room: 'a' });
    expect(client.messages.filter(({ type }) => type === 'error').length).toBe(1);
  });

  test('are closed with 4429 if they go on', async () => {
    const client = await connect();
    const flood = setInterval(() => client.sendControl(kind, 500), 20);
    expect(await client.next('error')).toMatchObject({ code: 'rate_limited' });
    expect(await client.closed).toBe(4429);
    clearInterval(flood);
  });
});

describe('binary messages beyond what a format needs', () => {
  test('are read more slowly, then the client is told, and closed with 4429 if it goes on', async () => {
    const flooder = await connect({ room: 'a', audio: 'pcm_s16le;rate=48000;channels=1' });
    const flood = setInterval(() => {
      for (let i = 0; i < 2000; i += 1) flooder.sendAudio(Buffer.of(0));
    }, 20);
    const told = await flooder.next('error');
    expect(told).toMatchObject({ code: 'rate_limited', retryable: true });
    expect(told.retry_after_ms).toBeGreaterThan(0);
    expect(await flooder.closed).toBe(4429);
    clearInterval(flood);
  });

  test('leave a client alone that stops when it is told', async () => {
    const client = await connect({ audio: 'pcmu' });
    // 16 s of sound.
    for (let i = 0; i < 2; i += 1) client.sendAudio(Buffer.alloc(65_000, 0xff));
    expect(await client.next('error')).toMatchObject({ code: 'rate_limited', retryable: true });
    expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ room: 'a' });
  });
});

test.each<[string, (index: number) => string]>([
  ['one room', () => 'a'],
  ['500 rooms', (index) => `room ${index}`],
])(
  '500 clients of a pro account that arrive at once, in %s, do not meet a budget',
  async (_name, roomOf) => {
    const clients = await Promise.all(
      Array.from({ length: 500 }, (_, index) =>
        connect({ peer: `p${index}`, room: roomOf(index) }),
      ),
    );
    // A slow machine takes more than the half minute for which one would wait by default.
    await Promise.all(clients.map((client) => client.next('joined', 0, 80_000)));
    expect(clients.flatMap(({ messages }) => messages).some(({ type }) => type === 'error')).toBe(
      false,
    );
  },
);

const NEVER_MS = 3_600_000;
/** A node that asks Redis nothing of its own accord. */
const IDLE: TimingOverrides = {
  leases: { leaseMs: NEVER_MS, renewEveryMs: NEVER_MS },
  usage: { writeEveryMs: NEVER_MS },
  webhooks: { beatEveryMs: NEVER_MS, sweepEveryMs: NEVER_MS },
  nodes: { beatEveryMs: NEVER_MS, deadAfterMs: NEVER_MS },
  redis: { clockEveryMs: NEVER_MS },
};

test.each(['key', 'token'])(
  'an account that replaces itself in a loop by a %s is kept out, and Redis is asked nothing meanwhile',
  async (secret) => {
    const redis = await openRedis();
    const timings = { ...IDLE, budgets: { blockMs: NEVER_MS } };
    const gateway = await openGateway({ REDIS_URL: redis.url }, timings);
    const { apiKey } = await createAccount(redis, 'free');
    const store = await openStore(redis);
    const tokenOf = async () => {
      const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
      const grant = { peer: 'loop', rooms: '*', ttl_seconds: 600, publish: true };
      const body = JSON.stringify(grant);
      const response = await fetch(`${gateway.url}/api/tokens`, { method: 'POST', headers, body });
      return ((await response.json()) as { token: string }).token;
    };
    const credentials =
      secret === 'key' ? { api_key: apiKey } : { api_key: undefined, token: await tokenOf() };
    const query = { room: '__lobby__', peer: 'loop', ...credentials };
    /** Connects, and returns with which code the connection was closed; undefined if it is open. */
    const tryOnce = async () => {
      const client = await connectTo(gateway, query);
      return Promise.race([
        client.next('welcome').then(() => undefined),
        client.next('error').then(async (error) => ({ ...error, closed: await client.closed })),
      ]);
    };
    let refusal: Awaited<ReturnType<typeof tryOnce>>;
    for (let tries = 0; tries < 400 && !refusal; tries += 1) refusal = await tryOnce();
    expect(refusal).toMatchObject({ code: 'rate_limited', retryable: true, closed: 4429 });
    expect(refusal?.retry_after_ms).toBeGreaterThan(0);
    await eventually('only the last is left', () => gateway.counts().sessions === 1);
    // Each question is a command itself.
    const isQuiet = async () => {
      const before = await countCommands(store);
      await sleep(100);
      return (await countCommands(store)) - before === 1;
    };
    await eventually('the node has written all', isQuiet);
    const before = await countCommands(store);
    for (let tried = 0; tried < 100; tried += 1) expect(await tryOnce()).toBeDefined();
    expect((await countCommands(store)) - before).toBe(1);
  },
);
