import { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { WebSocket } from 'ws';
import type { AttackContext, RawAttack } from './attack.ts';
import {
  anyOf,
  CONNECT_AGAIN_MS,
  IDLE_CONNECTIONS,
  isLost,
  keepOpen,
  MAX_UNSENT_BYTES,
  MOST_STRANGERS,
  openTcp,
  turn,
} from './tcp.ts';

/** Attacks by TLS records and handshakes. */

/** Records that leave in one segment. */
const AT_ONCE = 64;

/** Head of a masked binary message of 64 KiB (RFC 6455 §5.2); its mask is zero. */
const MESSAGE_BYTES = 65_536;
const MESSAGE_HEAD = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);

/** Connects a WebSocket over TLS whose records can be sent many in a segment. @returns it, and what sends what it has written */
async function openWss(context: AttackContext, query: Record<string, string>) {
  const address = new URL('/ws', context.url.replace('http', 'ws'));
  address.search = new URLSearchParams(query).toString();
  const tcp = await openTcp(context, address.hostname, Number(address.port));
  let records: Buffer[] = [];
  const tunnel = new Duplex({
    read: () => {},
    write: (record: Buffer, _, done) => {
      records.push(record);
      done();
    },
  });
  tcp.on('data', (chunk) => tunnel.push(chunk));
  tcp.on('close', () => tunnel.push(null));
  const flush = () => {
    tcp.write(Buffer.concat(records));
    records = [];
  };
  const flushing = setInterval(flush, 1);
  const tls = connectTls({ socket: tunnel, host: address.hostname });
  const socket = new WebSocket(address, {
    perMessageDeflate: false,
    headers: { authorization: `Bearer ${context.apiKey}` },
    createConnection: () => tls,
  });
  // 'close' follows.
  socket.on('error', () => {});
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) return;
    const { type, code } = JSON.parse(data.toString()) as { type: string; code?: string };
    if (type === 'joined') context.noteAccepted();
    if (code) context.noteTold(code);
  });
  socket.on('close', (code) => {
    if (!context.isOver()) context.noteTold(String(code));
  });
  await anyOf(socket, 'open', 'close');
  clearInterval(flushing);
  return { tcp, tls, flush };
}

/** Sends messages of 64 KiB whose every byte is a TLS record of its own. */
const sendTinyRecords: RawAttack['open'] = async (context) => {
  const query = { room: 'attacked', peer: `attacker-${context.client}`, audio: 'opaque' };
  let { tcp, tls, flush } = await openWss(context, query);
  const one = Buffer.alloc(1);
  const write = (bytes: Buffer) =>
    new Promise<void>((resolve) => {
      tls.write(bytes, (fault) => {
        if (!fault) context.noteSent(1, bytes.length);
        resolve();
      });
    });
  return async () => {
    while (!context.isOver()) {
      if (isLost(tcp)) {
        await sleep(CONNECT_AGAIN_MS);
        ({ tcp, tls, flush } = await openWss(context, query));
        continue;
      }
      await write(MESSAGE_HEAD);
      for (let at = 0; at < MESSAGE_BYTES && !isLost(tcp) && !context.isOver(); at += 1) {
        await write(one);
        if (at % AT_ONCE > 0) continue;
        flush();
        await turn();
        while (tcp.writableLength > MAX_UNSENT_BYTES && !isLost(tcp) && !context.isOver())
          await sleep(1);
      }
    }
    tcp.destroy();
  };
};

/** Returns the first message of a TLS handshake (RFC 8446 §4.1.2). */
async function makeClientHello(host: string): Promise<Buffer> {
  const hello = Promise.withResolvers<Buffer>();
  const tunnel = new Duplex({
    read: () => {},
    write: (record: Buffer, _, done) => {
      hello.resolve(record);
      done();
    },
  });
  const tls = connectTls({ socket: tunnel, host });
  // It is destroyed before the handshake.
  tls.on('error', () => {});
  try {
    return await hello.promise;
  } finally {
    tls.destroy();
  }
}

/** Keeps connections open on which nothing follows the first message of the handshake. */
const beginHandshakes: RawAttack['open'] = async (context) => {
  const { hostname, port } = new URL(context.url);
  const hello = await makeClientHello(hostname);
  return keepOpen(context, IDLE_CONNECTIONS, async () => {
    const socket = await openTcp(context, hostname, Number(port));
    // The end of a connection is noticed only once the data before it has been read.
    socket.resume();
    socket.write(hello, (fault) => {
      if (!fault) context.noteSent(1, hello.length);
    });
    return socket;
  });
};

export const TLS_ATTACKS: RawAttack[] = [
  {
    name: 'messages over TLS, each byte in a record of its own',
    open: sendTinyRecords,
    isOverTls: true,
    provokes: '1008',
  },
  {
    name: `${IDLE_CONNECTIONS} TLS handshakes that end after their first message`,
    open: beginHandshakes,
    isOverTls: true,
    isRefused: true,
    mostClients: MOST_STRANGERS,
  },
];
