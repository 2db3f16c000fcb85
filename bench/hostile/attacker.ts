import { WebSocket } from 'ws';
import { connectClient } from '../client.ts';
import { encodePackets } from '../packets.ts';
import type {
  AttackContext,
  AttackReport,
  JoinedMessage,
  MessageAttack,
  RawAttack,
  Told,
} from './attack.ts';
import { ATTACKS } from './attacks.ts';
import { talk } from './talk.ts';
import { CONNECT_AGAIN_MS, MAX_UNSENT_BYTES } from './tcp.ts';

/**
 * A process that attacks: `attacker.ts URL KEY ATTACK CLIENTS SECONDS`, where ATTACK is an index in {@link ATTACKS}. The SECONDS begin when
 * the first connection of every client has been accepted or refused. After them, the process sends its report to its parent.
 */

const MESSAGES_A_TURN = 32;
/** Longest time until the first connections are accepted or refused, ms. */
const MAX_CONNECT_MS = 15_000;
/** Lowest status of an answer over HTTP that refuses the request. */
const FIRST_ERROR_STATUS = 400;

const [, , url = '', apiKey = '', index = '', clients = '1', seconds = '10'] = process.argv;
let endsAtMs = 0;
const report: AttackReport = { connections: 0, accepted: 0, messages: 0, bytes: 0, told: {} };
const accepted = new Set<number>();

const isOver = () => performance.now() >= endsAtMs;
const turn = () => new Promise(setImmediate);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const note = (what: string) => (report.told[what] = (report.told[what] ?? 0) + 1);

type TextMessage = JoinedMessage & {
  type: string;
  code?: string;
  producer_id?: string;
  consumer_id?: string;
  reply_to?: string;
};

/** A connection, with what came over it. */
type Connection = { socket: WebSocket; told: Told; close(): void };

function open(attack: MessageAttack, client: number): Connection {
  const told: Told = {
    isAccepted: false,
    joined: undefined,
    producerId: undefined,
    consumerId: undefined,
    refused: 0,
  };
  const address = new URL('/ws', url.replace('http', 'ws'));
  const peer = attack.isOneName ? 'attacker' : `attacker-${client}`;
  const query = { room: '__lobby__', peer, api_key: apiKey, ...attack.query };
  address.search = new URLSearchParams(query).toString();
  const socket = new WebSocket(address, { perMessageDeflate: false, skipUTF8Validation: true });
  let isClosedHere = false;
  socket.on('open', () => (report.connections += 1));
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) return;
    const message = JSON.parse(data.toString()) as TextMessage;
    if (message.type === 'welcome' || message.type === 'joined') {
      told.isAccepted = true;
      accepted.add(client);
    }
    if (message.type === 'joined') told.joined = message;
    if (message.type === 'produced') told.producerId = message.producer_id;
    if (message.type === 'new_consumer') told.consumerId = message.consumer_id;
    if (!message.code) return;
    if (message.reply_to !== undefined) told.refused += 1;
    note(message.code);
  });
  socket.on('close', (code) => {
    if (!isClosedHere) note(String(code));
  });
  // 'close' follows, and is noted.
  socket.on('error', () => {});
  const close = () => {
    // A connection that the server is closing is noted with its code.
    isClosedHere ||= socket.readyState !== socket.CLOSING;
    socket.terminate();
  };
  return { socket, told, close };
}

const isOpen = ({ socket }: Connection) => socket.readyState === socket.OPEN;

/** Waits until a connection is accepted or refused. */
async function settled(connection: Connection): Promise<void> {
  const { socket, told } = connection;
  const isPending = () =>
    socket.readyState === socket.CONNECTING || (isOpen(connection) && !told.isAccepted);
  while (isPending() && !isOver()) await pause(1);
}

function send(socket: WebSocket, message: string | Buffer, asPing = false): void {
  const noteSent = (fault?: Error | null) => {
    if (fault) return;
    report.messages += 1;
    report.bytes += message.length;
  };
  if (asPing) socket.ping(message, undefined, noteSent);
  else socket.send(message, noteSent);
}

/** Sends over an open connection until the connection or the time is over. */
async function flood(attack: MessageAttack, connection: Connection): Promise<void> {
  const { socket, told } = connection;
  const startMs = performance.now();
  let sent = 0;
  for (const message of attack.messages(told)) {
    if (isOver() || !isOpen(connection)) break;
    if (attack.reconnectAfter !== undefined && sent >= attack.reconnectAfter) break;
    sent += 1;
    if (message !== undefined) send(socket, message, attack.asPings);
    const dueMs = attack.perSecond ? startMs + (sent * 1000) / attack.perSecond : 0;
    while (!isOver() && performance.now() < dueMs) await pause(5);
    if (sent % MESSAGES_A_TURN === 0 || message === undefined) await turn();
    // The gateway stops reading before it closes a connection: what is unsent stays unsent.
    while (isOpen(connection) && socket.bufferedAmount > MAX_UNSENT_BYTES && !isOver())
      await pause(1);
  }
  // A refusal arrives before the connection closes.
  if (attack.reconnectAfter !== undefined) await pause(1);
}

/** Attacks over one connection after another: reconnects after each close. */
async function attackAgain(
  attack: MessageAttack,
  client: number,
  first: Connection,
): Promise<void> {
  let connection = first;
  let last = first;
  while (!isOver()) {
    await flood(attack, connection);
    if (!attack.isOneName) connection.close();
    await pause(CONNECT_AGAIN_MS);
    // By now the gateway has told `last` that it was replaced.
    if (last !== connection) last.close();
    const next = open(attack, client);
    await settled(next);
    // Refused: the connection before is still open.
    if (isOpen(connection) && !isOpen(next)) continue;
    last = connection;
    connection = next;
  }
}

async function attackByMessages(attack: MessageAttack): Promise<void> {
  using opened = new DisposableStack();
  if (attack.speakers) await openSpeakers(attack.speakers, opened);
  if (attack.listeners) await openListeners(attack.listeners, opened);
  const first = Array.from({ length: Number(clients) }, (_, client) => open(attack, client));
  await Promise.all(first.map(settled));
  endsAtMs = performance.now() + Number(seconds) * 1000;
  await Promise.all(first.map((connection, client) => attackAgain(attack, client, connection)));
}

/** Connects another peer of the account to the attackers' room. */
async function openPeer(
  query: Record<string, string>,
  onFrame: (frame: Buffer) => void,
  opened: DisposableStack,
): Promise<WebSocket> {
  const address = new URL('/ws', url.replace('http', 'ws'));
  const words = { room: 'attacked', api_key: apiKey, audio: 'opus', ...query };
  address.search = new URLSearchParams(words).toString();
  const socket = await connectClient(address, onFrame);
  opened.defer(() => socket.terminate());
  return socket;
}

/** Connects peers that talk. */
async function openSpeakers(names: string[], opened: DisposableStack): Promise<void> {
  const { packets } = await encodePackets();
  const sockets = await Promise.all(names.map((peer) => openPeer({ peer }, () => {}, opened)));
  const timer = talk(sockets, packets);
  opened.defer(() => clearInterval(timer));
}

/** Connects peers that hear each packet of each speaker, and counts what they are sent. */
async function openListeners(count: number, opened: DisposableStack): Promise<void> {
  report.heardBytes = 0;
  const onFrame = ({ length }: Buffer) => (report.heardBytes! += length);
  const names = Array.from({ length: count }, (_, n) => `listener-${n}`);
  const sockets = await Promise.all(
    names.map((peer) => openPeer({ peer, delivery: 'forward' }, onFrame, opened)),
  );
  for (const socket of sockets) {
    socket.on('close', (code) => {
      if (!isOver()) note(`listener ${code}`);
    });
  }
}

const contextOf = (client: number): AttackContext => ({
  url,
  apiKey,
  client,
  isOver,
  noteConnection: () => (report.connections += 1),
  noteAccepted: () => accepted.add(client),
  noteAnswer: (status) => {
    if (status < FIRST_ERROR_STATUS) accepted.add(client);
    note(String(status));
  },
  noteReceived: (bytes) => (report.answerBytes = (report.answerBytes ?? 0) + bytes),
  noteSent: (messages, bytes) => {
    report.messages += messages;
    report.bytes += bytes;
  },
  noteTold: note,
});

async function attackRawly(attack: RawAttack): Promise<void> {
  const contexts = Array.from({ length: Number(clients) }, (_, client) => contextOf(client));
  const attacking = await Promise.all(contexts.map((context) => attack.open(context)));
  endsAtMs = performance.now() + Number(seconds) * 1000;
  await Promise.all(attacking.map((run) => run()));
}

const attack = ATTACKS[Number(index)];
if (!attack) throw new Error(`there is no attack ${index}`);
endsAtMs = performance.now() + MAX_CONNECT_MS;
await ('open' in attack ? attackRawly(attack) : attackByMessages(attack));
process.send?.({ ...report, accepted: accepted.size });
process.disconnect();
