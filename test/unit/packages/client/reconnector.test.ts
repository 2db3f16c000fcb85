import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { PartylineClient } from '../../../../packages/client/src/client.ts';
import { TokenError } from '../../../../packages/client/src/errors.ts';
import { VirtualChannel } from '../../../support/virtual-channel.ts';

/** Connections of the browser client that do not come about, in virtual time. */

/** The socket of a browser that opens it, and hears nothing but what the test says. */
class Socket extends EventTarget {
  static opened = 0;
  static last: Socket;
  readonly readyState = 0;

  constructor() {
    super();
    Socket.opened += 1;
    Socket.last = this;
  }

  /** Lets the client in. */
  static welcome(): void {
    const secrets = { session_id: 's', resume_token: 't', network: '192.0.2.0/24' };
    const welcome = { type: 'welcome', room: '__lobby__', resumed: true, mute: false, ...secrets };
    Socket.say({ ...welcome, resume_ms: 15_000 });
  }

  static say(message: object): void {
    const data = JSON.stringify(message);
    Socket.last.dispatchEvent(new MessageEvent('message', { data }));
  }

  static cut(code: number): void {
    Socket.last.dispatchEvent(Object.assign(new Event('close'), { code, reason: '' }));
  }

  close(): void {}
}

/** Number of times that a token was asked for. */
let asked = 0;
let client: PartylineClient | undefined;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('location', { href: 'https://voice.example.com/' });
  vi.stubGlobal('WebSocket', Socket);
  vi.stubGlobal('MessageChannel', VirtualChannel);
  const events = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('window', { setTimeout, clearTimeout, setInterval, clearInterval, ...events });
  Socket.opened = 0;
  asked = 0;
});
afterEach(() => {
  client?.close();
  if (vi.getTimerCount() > 0) throw new Error('A timer is left.');
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const openClient = (getToken: () => Promise<string>) =>
  (client = new PartylineClient({
    peer: 'ada',
    getToken: () => {
      asked += 1;
      return getToken();
    },
    transports: ['websocket'],
  }));

test('an address that the browser refuses to open ends the client, with the browser’s words', async () => {
  class Refusing {
    readonly url = ((): never => {
      throw new DOMException('An insecure connection may not be initiated.', 'SecurityError');
    })();
  }
  vi.stubGlobal('WebSocket', Refusing);
  const { state } = openClient(() => Promise.resolve('token'));
  expect(state.name).toBe('idle');
  await expect(client!.connect()).rejects.toMatchObject({
    name: 'ClosedError',
    message: 'An insecure connection may not be initiated.',
    reason: { code: 'unreachable', retryable: false },
  });
  expect(client!.state.name).toBe('closed');
});

test('a token that does not come within 10 s is asked for again; what comes later is not used', async () => {
  const first = Promise.withResolvers<string>();
  openClient(() => (asked === 1 ? first.promise : Promise.resolve('token')));
  const connected = client!.connect();
  await vi.advanceTimersByTimeAsync(9_900);
  expect(client!.state.name).toBe('connecting');
  await vi.advanceTimersByTimeAsync(200);
  expect(client!.state).toMatchObject({
    name: 'reconnecting',
    reason: { message: 'No token came within 10 s.', retryable: true },
  });
  await vi.advanceTimersByTimeAsync(1000);
  expect({ asked, opened: Socket.opened }).toEqual({ asked: 2, opened: 1 });
  first.resolve('late');
  await vi.advanceTimersByTimeAsync(0);
  expect(Socket.opened).toBe(1);
  client!.close();
  await expect(connected).rejects.toMatchObject({ name: 'ClosedError' });
});

test('a getToken that throws is asked again; a TokenError that is not retryable ends the client', async () => {
  const reason = { code: 'unauthorized', closeCode: 4401, message: 'Not you.', retryable: false };
  openClient(() => Promise.reject(asked === 1 ? new Error('Bad Gateway') : new TokenError(reason)));
  const failed = client!.connect().catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(0);
  expect(client!.state).toMatchObject({ name: 'reconnecting', reason: { code: 'unreachable' } });
  await vi.advanceTimersByTimeAsync(1000);
  expect(await failed).toMatchObject({ reason });
  expect({ asked, opened: Socket.opened }).toEqual({ asked: 2, opened: 0 });
});

test('a client that is closed while it waits for a token opens nothing when it comes', async () => {
  const token = Promise.withResolvers<string>();
  openClient(() => token.promise);
  const connected = client!.connect();
  client!.close();
  await expect(connected).rejects.toMatchObject({ name: 'ClosedError' });
  token.resolve('late');
  await vi.advanceTimersByTimeAsync(0);
  expect(Socket.opened).toBe(0);
});

/** Opens a client that was let in and lost its connection, and whose next attempt has begun. */
async function loseConnection(): Promise<void> {
  openClient(() => Promise.resolve('token'));
  const connected = client!.connect();
  await vi.advanceTimersByTimeAsync(0);
  Socket.welcome();
  await connected;
  await vi.advanceTimersByTimeAsync(1000);
  Socket.cut(1006);
  await vi.advanceTimersByTimeAsync(500);
  expect(Socket.opened).toBe(2);
}

/** Opens a client that was let in, lost its connection, gave up an attempt without an answer, and was let in again. */
async function giveUpAttempt(): Promise<void> {
  await loseConnection();
  // A third of the time for which the place is kept, and a delay of 0.5 to 1 s.
  await vi.advanceTimersByTimeAsync(6000);
  expect(Socket.opened).toBe(3);
  Socket.welcome();
  expect(client!.state.name).toBe('lobby');
}

test('a connection that is replaced by an attempt of its own client is opened again, once', async () => {
  await giveUpAttempt();
  await vi.advanceTimersByTimeAsync(5000);
  Socket.cut(4409);
  expect(client!.state).toMatchObject({
    name: 'reconnecting',
    reason: {
      code: 'replaced',
      message: 'An earlier attempt to connect took the place of this connection.',
      retryable: true,
    },
  });
  await vi.advanceTimersByTimeAsync(2000);
  expect(Socket.opened).toBe(4);
  Socket.welcome();
  expect(client!.state.name).toBe('lobby');
  Socket.cut(4409);
  expect(client!.state).toMatchObject({ name: 'closed', reason: { code: 'replaced' } });
});

test('a connection that is replaced more than a minute after such an attempt ends the client', async () => {
  await giveUpAttempt();
  // In the lobby, a connection on which nothing arrives is given up.
  for (let i = 0; i < 12; i += 1) {
    await vi.advanceTimersByTimeAsync(5000);
    Socket.say({ type: 'stats' });
  }
  Socket.cut(4409);
  expect(client!.state).toMatchObject({ name: 'closed', reason: { code: 'replaced' } });
});

test.each([
  { code: 1006, closed: false },
  { code: 1012, closed: true },
  { code: 1013, closed: true },
])(
  'a connection that is replaced after an attempt that ended with $code: closed for good $closed',
  async ({ code, closed }) => {
    await loseConnection();
    Socket.cut(code);
    await vi.advanceTimersByTimeAsync(2000);
    expect(Socket.opened).toBe(3);
    Socket.welcome();
    Socket.cut(4409);
    expect(client!.state.name).toBe(closed ? 'closed' : 'reconnecting');
  },
);
