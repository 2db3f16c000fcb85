import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { RtpHeader } from 'werift';
import { Connection } from '../../packages/canary/src/connection.ts';
import { MediaTransport } from '../../packages/canary/src/media-transport.ts';
import { recordedOffer } from '../../test/support/offers.ts';
import type { AttackContext, RawAttack } from './attack.ts';

/** Attacks that are no messages over `/ws`: by TLS records, HTTP requests, and packets of media. */

/** Requests that are written at once, and records that leave in one segment. */
const AT_ONCE = 64;
/** Time between two attempts to connect, ms. */
const CONNECT_AGAIN_MS = 20;
const MAX_UNSENT_BYTES = 256 * 1024;
const STATUS_LINE = /HTTP\/1\.1 (\d{3})/g;

/** Head of a masked binary message of 64 KiB (RFC 6455 §5.2); its mask is zero. */
const MESSAGE_BYTES = 65_536;
const MESSAGE_HEAD = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);

const turn = () => new Promise(setImmediate);
const isLost = (socket: Socket) => socket.destroyed || !socket.writable;

/** Opens a TCP connection that counts what it is told as HTTP answers. */
async function openTcp({ url, noteConnection, noteAccepted, noteTold }: AttackContext) {
  const { hostname, port } = new URL(url);
  const socket = connectTcp({ host: hostname, port: Number(port) });
  socket.on('connect', noteConnection);
  socket.on('data', (chunk) => {
    for (const [, status] of chunk.toString('latin1').matchAll(STATUS_LINE)) {
      noteAccepted();
      noteTold(status!);
    }
  });
  // 'close' follows.
  socket.on('error', () => {});
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
  return socket;
}

/** Sends the same request in a pipeline without waiting for answers, and connects anew when it is refused. */
function pipeline(findPath: (url: string) => Promise<string>): RawAttack['open'] {
  return async (context) => {
    const path = await findPath(context.url);
    const request = Buffer.from(
      `GET ${path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${context.apiKey}\r\n\r\n`,
    );
    const requests = Buffer.concat(Array<Buffer>(AT_ONCE).fill(request));
    let socket = await openTcp(context);
    return async () => {
      while (!context.isOver()) {
        if (isLost(socket)) {
          await sleep(CONNECT_AGAIN_MS);
          socket = await openTcp(context);
          continue;
        }
        socket.write(requests, (fault) => {
          if (!fault) context.noteSent(AT_ONCE, requests.length);
        });
        await turn();
        while (socket.writableLength > MAX_UNSENT_BYTES && !isLost(socket) && !context.isOver())
          await sleep(1);
      }
      socket.destroy();
    };
  };
}

/** Returns the path of the page's script; of a server without a page, the root. */
async function findScript(url: string): Promise<string> {
  const page = await (await fetch(url)).text();
  return /<script[^>]* src="([^"]+)"/.exec(page)?.[1] ?? '/';
}

/** Names of the page's files that a script loads. */
const FILE_NAME = /[\w-]+-[\w-]{8}\.js/g;

/** Returns the URL of the longest file of the page; of a server without a page, that of the root. */
async function findLongestFile(url: string): Promise<string> {
  const lengths = new Map<string, number>();
  const read = async (path: string): Promise<void> => {
    if (lengths.has(path)) return;
    lengths.set(path, 0);
    const file = await fetch(new URL(path, url));
    const text = await file.text();
    if (!file.ok) return;
    lengths.set(path, text.length);
    for (const [name] of text.matchAll(FILE_NAME)) await read(`/assets/${name}`);
  };
  await read('/');
  const [longest = '/'] = [...lengths].toSorted(([, one], [, other]) => other - one)[0] ?? [];
  return new URL(longest, url).href;
}

/** Downloads the longest file of the page, which takes no key, again and again. */
const download: RawAttack['open'] = async (context) => {
  const file = await findLongestFile(context.url);
  return async () => {
    while (!context.isOver()) {
      try {
        const response = await fetch(file);
        const { byteLength } = await response.arrayBuffer();
        context.noteAccepted();
        context.noteTold(String(response.status));
        context.noteSent(1, byteLength);
      } catch {
        context.noteTold('no answer');
        await sleep(CONNECT_AGAIN_MS);
      }
    }
  };
};

/** Connects a WebSocket over TLS whose records can be sent many in a segment. @returns it, and what sends what it has written */
async function openWss(context: AttackContext, query: Record<string, string>) {
  const tcp = await openTcp(context);
  let records: Buffer[] = [];
  const tunnel = new Duplex({
    read: () => {},
    write: (record: Buffer, _, done) => {
      records.push(record);
      done();
    },
  });
  tcp.removeAllListeners('data');
  tcp.on('data', (chunk) => tunnel.push(chunk));
  tcp.on('close', () => tunnel.destroy());
  const flush = () => {
    tcp.write(Buffer.concat(records));
    records = [];
  };
  const tls: TLSSocket = connectTls({ socket: tunnel, host: new URL(context.url).hostname });
  // 'close' follows.
  tls.on('error', () => {});
  const flushing = setInterval(flush, 1);
  try {
    await Promise.race([once(tls, 'secureConnect'), once(tcp, 'close')]);
    const path = `/ws?${new URLSearchParams({ room: '__lobby__', ...query }).toString()}`;
    tls.write(
      `GET ${path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${context.apiKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
    );
    const [answer] = (await Promise.race([once(tls, 'data'), once(tcp, 'close')])) as unknown[];
    if (String(answer).startsWith('HTTP/1.1 101')) context.noteAccepted();
  } finally {
    clearInterval(flushing);
  }
  // Answers are read and discarded.
  tls.resume();
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

/** Begins WHIP sessions, and ends those that begin. */
const publish: RawAttack['open'] = async (context) => {
  const offer = recordedOffer('chromium-whip');
  const headers = { authorization: `Bearer ${context.apiKey}`, 'content-type': 'application/sdp' };
  const path = `/whip/attacked?peer=attacker-${context.client}`;
  const request = async (address: string, method: string, body?: string): Promise<void> => {
    try {
      const response = await fetch(new URL(address, context.url), {
        method,
        headers,
        ...(body && { body }),
      });
      context.noteConnection();
      context.noteAccepted();
      context.noteTold(String(response.status));
      context.noteSent(1, body?.length ?? 0);
      await response.arrayBuffer();
      const session = response.headers.get('location');
      if (session && method === 'POST') await request(session, 'DELETE');
    } catch {
      context.noteTold('no answer');
      await sleep(CONNECT_AGAIN_MS);
    }
  };
  return async () => {
    while (!context.isOver()) await request(path, 'POST', offer);
  };
};

const OPUS_PAYLOAD_TYPE = 111;
const FRAME_SAMPLES = 960;
/** An Opus packet of 20 ms. */
const OPUS_FRAME = Buffer.concat([Buffer.from([0xf8]), randomBytes(99)]);

/** Sends RTP over WebRTC as fast as it can. */
const floodRtp: RawAttack['open'] = async (context) => {
  const { url, apiKey: key, client } = context;
  const ssrc = 1000 + client;
  const connection = await Connection.open({ url, key, room: 'attacked' }, `attacker-${client}`);
  context.noteConnection();
  const join = { type: 'join', room: 'attacked', media: 'webrtc' };
  const { webrtc } = await connection.ask(join, 'joined');
  if (!webrtc) throw new Error('the gateway gave no transports');
  const { send_transport: description } = webrtc;
  const transport = await MediaTransport.open(undefined, false);
  const connect = { transport_id: description.id, dtls_parameters: transport.dtlsParameters };
  await connection.ask({ type: 'connect_transport', ...connect }, 'transport_connected');
  await transport.connect(description);
  const codec = {
    mimeType: 'audio/opus',
    payloadType: OPUS_PAYLOAD_TYPE,
    clockRate: 48_000,
    channels: 2,
  };
  const produce = {
    transport_id: description.id,
    kind: 'audio',
    rtp_parameters: { codecs: [codec], encodings: [{ ssrc }] },
  };
  await connection.ask({ type: 'produce', ...produce }, 'produced');
  context.noteAccepted();
  connection.onMessage = (message) => {
    if (message.type === 'error') context.noteTold(message.code);
  };
  return async () => {
    for (let number = 0; !context.isOver(); number += 1) {
      const header = new RtpHeader({
        payloadType: OPUS_PAYLOAD_TYPE,
        ssrc,
        sequenceNumber: number & 0xffff,
        timestamp: (number * FRAME_SAMPLES) >>> 0,
      });
      transport.send(OPUS_FRAME, header);
      context.noteSent(1, OPUS_FRAME.length);
      if (number % AT_ONCE === 0) await turn();
    }
    connection.close();
    await transport.close();
  };
};

/** Clients with a DTLS handshake of their own, which one process of the load makes within its time to connect. */
const MOST_WEBRTC_CLIENTS = 50;

export const RAW_ATTACKS: RawAttack[] = [
  {
    name: 'messages over TLS, each byte in a record of its own',
    open: sendTinyRecords,
    isOverTls: true,
  },
  {
    name: 'HTTP requests in a pipeline: `/api/me`',
    open: pipeline(async () => '/api/me'),
    isRefused: true,
  },
  {
    name: "HTTP requests in a pipeline: the page's script",
    open: pipeline(findScript),
    isRefused: true,
  },
  { name: "HTTP requests one after another: the page's longest file", open: download },
  { name: 'WHIP sessions that begin and end', open: publish },
  {
    name: `RTP without pause over WebRTC (${MOST_WEBRTC_CLIENTS} clients in place of 500)`,
    open: floodRtp,
    mostClients: MOST_WEBRTC_CLIENTS,
    hasNoFloor: true,
  },
];
