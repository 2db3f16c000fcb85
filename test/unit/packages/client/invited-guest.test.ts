import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { InvitedGuest } from '../../../../packages/client/src/invited-guest.ts';

/** A user who follows an invitation; browser, gateway and client are the test's. */

const LINK = 'https://voice.example.com/#invite=i';
const REMOVED = 'The gateway removed you from the room.';

/** True if the user allows the microphone. */
let isAllowed: boolean;
/** True if the gateway lets the guest into its room. */
let isLetIn: boolean;
let redeemed: { address: string; body: unknown }[];
let answer: () => Response;
let microphones: Closable[];
let clients: Client[];
/** Sentence that is shown. */
let shown: string;
/** Called when the guest is in the room. */
let entered: () => void;
let guest: InvitedGuest;

class Closable {
  isClosed = false;
  readonly track = {};

  close(): void {
    this.isClosed = true;
  }
}

type State = {
  name: string;
  room?: string;
  reason?: { message: string };
  trouble?: string;
  peers?: ReadonlyMap<string, object>;
};

class Client extends Closable {
  readonly peers = new Map<string, object>();
  readonly url: string;
  resumed = 0;
  state: State = { name: 'idle' };
  readonly #events = new EventEmitter();

  constructor({ url }: { url: URL }) {
    super();
    this.url = String(url);
    clients.push(this);
  }
  on(event: string, listener: (detail: unknown) => void): void {
    this.#events.on(event, listener);
  }
  change(state: State): void {
    this.state = { ...state, peers: this.peers };
    this.#events.emit('change', this.state);
  }
  tell(fault: string): void {
    this.#events.emit('fault', fault);
  }
  async connect(): Promise<void> {
    this.change({ name: 'lobby' });
  }
  async join(room: string): Promise<void> {
    if (!isLetIn) throw new Error('No such room.');
    this.change({ name: 'in_room', room });
  }
  resumePlayback(): void {
    this.resumed += 1;
  }
  override close(): void {
    super.close();
    this.change({ name: 'closed', reason: { message: 'The connection was closed here.' } });
  }
}

vi.mock('../../../../packages/client/src/client.ts', () => ({
  PartylineClient: function open(options: { url: URL }) {
    return new Client(options);
  },
}));
vi.mock('../../../../packages/client/src/microphone.ts', () => ({
  Microphone: {
    open: async () => {
      if (!isAllowed) throw new Error('Permission denied');
      const microphone = new Closable();
      microphones.push(microphone);
      return microphone;
    },
  },
}));

beforeEach(() => {
  isAllowed = true;
  isLetIn = true;
  redeemed = [];
  microphones = [];
  clients = [];
  answer = () => Response.json({ room: 'kitchen', peer: 'guest', token: 't' });
  vi.stubGlobal('fetch', async (address: URL, { body }: { body: string }) => {
    redeemed.push({ address: String(address), body: JSON.parse(body) as unknown });
    return answer();
  });
  guest = new InvitedGuest((words) => {
    shown = words;
    if (words.startsWith('In the room')) entered();
  });
});
afterEach(() => {
  vi.unstubAllGlobals();
});

/** Clicks; resolves when the guest is in the room, or the visit is over. */
async function click(link = LINK, name?: string): Promise<void> {
  const inRoom = new Promise<void>((resolve) => {
    entered = resolve;
  });
  await Promise.race([guest.enter(link, name), inRoom]);
}

const areClosed = () => [...microphones, ...clients].map(({ isClosed }) => isClosed);

test('a second click makes no second peer, and plays what the browser has blocked', async () => {
  const first = click();
  await guest.enter(LINK);
  await first;
  await guest.enter(LINK);
  expect(redeemed).toEqual([
    { address: 'https://voice.example.com/api/invites/redeem', body: { invite: 'i' } },
  ]);
  expect(areClosed()).toEqual([false, false]);
  expect(clients[0]!.resumed).toBe(1);
  expect(guest.client).toBe(clients[0]);
});

test('a microphone that is refused leaves no peer behind, and the guest can try again', async () => {
  isAllowed = false;
  await click();
  expect({ redeemed, clients, shown }).toEqual({
    redeemed: [],
    clients: [],
    shown: 'Permission denied',
  });
  isAllowed = true;
  await click();
  expect(shown).toBe('In the room kitchen, alone.');
});

test('a room that is refused leaves neither peer nor microphone open', async () => {
  isLetIn = false;
  await click();
  expect(areClosed()).toEqual([true, true]);
  expect(shown).toBe('No such room.');
  expect(guest.client).toBeUndefined();
});

test.each<[string, string, () => Response]>([
  [
    'that is over',
    'The invitation is not valid, or has expired.',
    () =>
      Response.json({ detail: 'The invitation is not valid, or has expired.' }, { status: 404 }),
  ],
  [
    'that a proxy answers',
    'The gateway of this invitation cannot be reached.',
    () => new Response('<h1>Bad gateway</h1>', { status: 502 }),
  ],
])('an invitation %s leaves no microphone open', async (_, words, answered) => {
  answer = answered;
  await click();
  expect({ shown, clients }).toEqual({ shown: words, clients: [] });
  expect(areClosed()).toEqual([true]);
});

test.each(['', 'kitchen', 'https://voice.example.com/'])(
  '%j is not taken for an invitation',
  async (link) => {
    await click(link);
    expect({ shown, redeemed }).toEqual({
      shown: 'This is not the link of an invitation.',
      redeemed: [],
    });
  },
);

test('who is there, and what is wrong, is told in words', async () => {
  await click();
  const [client] = clients;
  client!.peers.set('Ada', {}).set('Bob', {});
  client!.change({ name: 'in_room', room: 'kitchen', trouble: 'Nobody hears you.' });
  expect(shown).toBe('In the room kitchen, with Ada, Bob. Nobody hears you.');
  client!.change({ name: 'reconnecting', reason: { message: 'The connection broke.' } });
  expect(shown).toBe('The connection broke. Trying again…');
  client!.tell('The speakers are gone.');
  expect(shown).toBe('The connection broke. Trying again… The speakers are gone.');
});

test('a client that has ended can be followed by another', async () => {
  await click();
  clients[0]!.change({ name: 'closed', reason: { message: 'Out of minutes.' } });
  await vi.waitFor(() => expect(areClosed()).toEqual([true, true]), { timeout: 10_000 });
  expect(shown).toBe('Out of minutes.');
  await click();
  expect(clients).toHaveLength(2);
});

test('a guest that is removed from its room is told why, and leaves no peer behind', async () => {
  await click();
  clients[0]!.tell(REMOVED);
  clients[0]!.change({ name: 'lobby' });
  await vi.waitFor(() => expect(areClosed()).toEqual([true, true]), { timeout: 10_000 });
  expect(shown).toBe(REMOVED);
});

test('an invitation to a gateway below a path is redeemed there, with a name', async () => {
  await click('https://example.com/voice/#invite=i', 'Ada');
  expect(redeemed).toEqual([
    { address: 'https://example.com/voice/api/invites/redeem', body: { invite: 'i', name: 'Ada' } },
  ]);
  expect(clients.map(({ url }) => url)).toEqual(['https://example.com/voice/ws']);
});
