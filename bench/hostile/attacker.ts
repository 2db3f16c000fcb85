import { WebSocket } from 'ws';
import type { Attack, AttackReport, Told } from './attack.ts';
import { ATTACKS } from './attacks.ts';

/**
 * A process that attacks: `attacker.ts URL KEY ATTACK CLIENTS SECONDS`, where ATTACK is the index of the attack. It prints a
 * line `ready {}` when its clients begin, and sends its report to its parent when their time is over.
 */

const MAX_UNSENT_BYTES = 256 * 1024;
const MESSAGES_A_TURN = 32;
const RECONNECT_AFTER_MS = 20;

const [, , url = '', apiKey = '', index = '', clients = '1', seconds = '10'] = process.argv;
const endsAtMs = performance.now() + Number(seconds) * 1000;
const report: AttackReport = { connections: 0, messages: 0, bytes: 0, told: {} };

const isOver = () => performance.now() >= endsAtMs;
const turn = () => new Promise(setImmediate);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const note = (what: string) => (report.told[what] = (report.told[what] ?? 0) + 1);

function connect(attack: Attack, client: number, told: Told): WebSocket {
  const address = new URL('/ws', url.replace('http', 'ws'));
  const peer = attack.isOneName ? 'attacker' : `attacker-${client}`;
  const query = { room: '__lobby__', peer, api_key: apiKey, ...attack.query };
  address.search = new URLSearchParams(query).toString();
  const socket = new WebSocket(address, { perMessageDeflate: false, skipUTF8Validation: true });
  report.connections += 1;
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) return;
    const message = JSON.parse(data.toString()) as { type: string; code?: string };
    if (message.type === 'joined') told.joined = message as NonNullable<Told['joined']>;
    if (message.code) note(message.code);
  });
  socket.on('close', (code) => note(String(code)));
  // 'close' follows, and is noted.
  socket.on('error', () => {});
  return socket;
}

async function attackOnce(attack: Attack, client: number): Promise<void> {
  const told: Told = { joined: undefined };
  const socket = connect(attack, client, told);
  while (socket.readyState === socket.CONNECTING && !isOver()) await pause(1);
  const startMs = performance.now();
  let sent = 0;
  for (const message of attack.messages(told)) {
    if (isOver() || socket.readyState !== socket.OPEN) break;
    if (attack.reconnectAfter !== undefined && sent >= attack.reconnectAfter) break;
    sent += 1;
    if (message !== undefined) {
      socket.send(message);
      report.messages += 1;
      report.bytes += message.length;
    }
    const dueMs = attack.perSecond ? startMs + (sent * 1000) / attack.perSecond : 0;
    while (!isOver() && performance.now() < dueMs) await pause(5);
    if (sent % MESSAGES_A_TURN === 0 || message === undefined) await turn();
    while (socket.bufferedAmount > MAX_UNSENT_BYTES && !isOver()) await pause(1);
  }
  // Told why, if it was refused.
  if (attack.reconnectAfter !== undefined) await pause(1);
  socket.terminate();
}

async function attackAgain(attack: Attack, client: number): Promise<void> {
  while (!isOver()) {
    await attackOnce(attack, client);
    await pause(RECONNECT_AFTER_MS);
  }
}

const attack = ATTACKS[Number(index)];
if (!attack) throw new Error(`there is no attack ${index}`);
process.stdout.write('ready {}\n');
await Promise.all(
  Array.from({ length: Number(clients) }, (_, client) => attackAgain(attack, client)),
);
process.send?.(report);
process.disconnect();
