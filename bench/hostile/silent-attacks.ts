import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { PLANS } from '../../src/accounts/plans.ts';
import type { AttackContext, RawAttack } from './attack.ts';
import { json } from './messages.ts';
import { CONNECT_AGAIN_MS } from './tcp.ts';

/** Attacks by clients that do not read. */

/** Timings of the gateway: a client that is silent is closed after 0.5 to 0.75 s. */
const SILENT_SOON = { sessions: { silentAfterMs: 500, beatEveryMs: 250 } };
/** Time for which a client reads nothing, ms; the gateway has closed it by then. */
const UNREAD_MS = 1000;
/** Longest time until a client is in its room, or has read that it was closed, ms. */
const MAX_WAIT_MS = 2000;
const CLOSED_FOR_SILENCE = 4408;
const FREE_CLIENTS = PLANS.free.maxCcu;

type Session = Record<'session_id' | 'resume_token', string>;
type Welcome = Session & { type: string; code?: string; resumed?: boolean };

/** Connection of a client that is in its room, or was refused. */
type Connection = { socket: WebSocket; closed: Promise<number | undefined>; session?: Session };

/** Connects a client to its room. @param session the one that it resumes */
async function connect(context: AttackContext, session?: Session): Promise<Connection> {
  const { url, apiKey, client, noteConnection, noteAccepted, noteTold } = context;
  const address = new URL('/ws', url.replace('http', 'ws'));
  const query = { room: 'attacked', peer: `attacker-${client}`, api_key: apiKey, ...session };
  address.search = new URLSearchParams(query).toString();
  const socket = new WebSocket(address, { perMessageDeflate: false });
  const inRoom = Promise.withResolvers<void>();
  const closed = new Promise<number>((resolve) => socket.on('close', resolve));
  const connection: Connection = { socket, closed };
  socket.on('open', noteConnection);
  // 'close' follows.
  socket.on('error', () => {});
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) return;
    const { type, code, resumed, session_id, resume_token } = JSON.parse(
      data.toString(),
    ) as Welcome;
    if (code) noteTold(code);
    if (type === 'welcome') connection.session = { session_id, resume_token };
    if (type === 'welcome' && resumed) noteTold('resumed');
    if (type !== 'joined') return;
    noteAccepted();
    inRoom.resolve();
  });
  await Promise.race([inRoom.promise, closed, sleep(MAX_WAIT_MS)]);
  return connection;
}

/** Reads nothing until the gateway has closed the connection, and resumes the session, again and again. */
const resumeAfterSilence: RawAttack['open'] = async (context) => {
  let { socket, closed, session } = await connect(context);
  const sendOnce = (message: string) =>
    socket.send(message, (fault) => {
      if (!fault) context.noteSent(1, message.length);
    });
  return async () => {
    for (;;) {
      if (socket.readyState === socket.OPEN) {
        sendOnce(json({ type: 'configure', volume: {} }));
        socket.pause();
        await sleep(UNREAD_MS);
        socket.resume();
      }
      const code = await Promise.race([closed, sleep(MAX_WAIT_MS, undefined)]);
      socket.terminate();
      if (context.isOver()) return;
      if (code !== undefined) context.noteTold(String(code));
      await sleep(CONNECT_AGAIN_MS);
      ({ socket, closed, session } = await connect(
        context,
        code === CLOSED_FOR_SILENCE ? session : undefined,
      ));
    }
  };
};

export const SILENT_ATTACKS: RawAttack[] = [
  {
    name: 'reads nothing until it is closed with 4408, and resumes, again and again',
    open: resumeAfterSilence,
    timings: SILENT_SOON,
    fewestClients: FREE_CLIENTS,
    provokes: 'resumed',
    hasNoFloor: true,
  },
];
