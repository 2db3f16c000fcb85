import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { beforeEach, expect, test } from 'vitest';

/** The script of examples/page; browser, gateway and the package are the test's. */

const PAGE = join(import.meta.dirname, '../../../../examples/page/page.js');
const SCRIPT = readFileSync(PAGE, 'utf8').replace(/^import .*;$/m, '');

class Refusal extends Error {}

/** True if the user allows the microphone. */
let isAllowed: boolean;
/** True if the gateway lets the guest into its room. */
let isLetIn: boolean;
let redeemed: string[];
/** Link that the user pasted. */
let input: { value: string };
let microphones: Closable[];
let clients: Client[];
let button: { disabled?: boolean; onclick?: () => Promise<void> };
let p: { textContent?: string };
let output: { textContent?: string };

class Closable {
  isClosed = false;
  readonly track = {};

  close(): void {
    this.isClosed = true;
  }
}

class Client extends Closable {
  readonly peers = new Map<string, object>();
  readonly url: string;
  readonly #events = new EventEmitter();

  constructor({ url }: { url: URL }) {
    super();
    this.url = String(url);
    clients.push(this);
  }
  on(event: string, listener: (detail: unknown) => void): void {
    this.#events.on(event, listener);
  }
  change(state: { name: string; reason?: { message: string } }): void {
    this.#events.emit('change', state);
  }
  tell(fault: string): void {
    this.#events.emit('fault', fault);
  }
  async connect(): Promise<void> {
    this.change({ name: 'lobby' });
  }
  async join(): Promise<void> {
    if (!isLetIn) throw new Refusal('No such room.');
    this.change({ name: 'in_room' });
  }
  override close(): void {
    super.close();
    this.change({ name: 'closed' });
  }
}

beforeEach(() => {
  isAllowed = true;
  isLetIn = true;
  redeemed = [];
  microphones = [];
  clients = [];
  button = {};
  p = {};
  output = {};
  input = { value: 'https://voice.example.com/#invite=i' };
  const elements: Record<string, object> = { input, button, p, output };
  const open = async () => {
    if (!isAllowed) throw new Refusal('Permission denied');
    const microphone = new Closable();
    microphones.push(microphone);
    return microphone;
  };
  runInNewContext(SCRIPT, {
    URL,
    URLSearchParams,
    document: { querySelector: (name: string) => elements[name] },
    fetch: async (address: URL) => {
      redeemed.push(String(address));
      return Response.json({ room: 'kitchen', peer: 'guest', token: 't' });
    },
    Microphone: { open },
    PartylineClient: Client,
  });
});

/** Clicks as a user can: a button that is disabled has no effect. */
const click = async () => {
  if (!button.disabled) await button.onclick!();
};
const clickTwice = () => Promise.all([click(), click()]);

test('a double click makes one peer', async () => {
  await clickTwice();
  await click();
  expect({ redeemed, microphones, clients }).toMatchObject({
    redeemed: ['https://voice.example.com/api/invites/redeem'],
    microphones: [{ isClosed: false }],
    clients: [{ isClosed: false }],
  });
  expect(p.textContent).toBe('in_room');
});

test('a microphone that is refused leaves no peer behind, and the button can be clicked again', async () => {
  isAllowed = false;
  await click();
  expect({ redeemed, clients, text: p.textContent }).toEqual({
    redeemed: [],
    clients: [],
    text: 'Permission denied',
  });
  isAllowed = true;
  await click();
  expect(clients).toHaveLength(1);
  expect(p.textContent).toBe('in_room');
});

test('a room that is refused leaves neither peer nor microphone open', async () => {
  isLetIn = false;
  await click();
  expect([...microphones, ...clients].map(({ isClosed }) => isClosed)).toEqual([true, true]);
  expect(p.textContent).toBe('No such room.');
  expect(button.disabled).toBe(false);
});

test('a client that has ended can be followed by another', async () => {
  await click();
  clients[0]!.close();
  expect(microphones[0]!.isClosed).toBe(true);
  await click();
  expect(clients).toHaveLength(2);
});

test.each(['reconnecting', 'closed'])('the page says why it is %s', async (name) => {
  await click();
  clients[0]!.peers.set('Ada', {});
  clients[0]!.change({ name, reason: { message: 'Out of minutes.' } });
  expect(p.textContent).toBe(`${name}, Out of minutes., Ada`);
});

test('a guest that is removed from its room sees why, leaves no peer behind, and can join again', async () => {
  await click();
  clients[0]!.tell('The gateway removed you from the room.');
  clients[0]!.change({ name: 'lobby' });
  expect(output.textContent).toBe('The gateway removed you from the room.');
  expect(p.textContent).toBe('closed');
  expect([...microphones, ...clients].map(({ isClosed }) => isClosed)).toEqual([true, true]);
  await click();
  expect(clients).toHaveLength(2);
  expect({ p, output }).toEqual({ p: { textContent: 'in_room' }, output: { textContent: '' } });
});

test('an invitation to a gateway below a path is redeemed there', async () => {
  input.value = 'https://example.com/voice/#invite=i';
  await click();
  expect(redeemed).toEqual(['https://example.com/voice/api/invites/redeem']);
  expect(clients.map(({ url }) => url)).toEqual(['https://example.com/voice/ws']);
});
