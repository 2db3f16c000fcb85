import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { RtpHeader } from 'werift';
import { Connection, ServerFault } from '../../packages/canary/src/connection.ts';
import { MediaTransport } from '../../packages/canary/src/media-transport.ts';
import { recordedOffer } from '../../test/support/offers.ts';
import type { AttackContext, RawAttack } from './attack.ts';
import { CONNECT_AGAIN_MS, keepWaiting, openTcp, turn } from './tcp.ts';

/** Attacks on WebRTC: by requests of WHIP, packets of media, and connections to the port of the media worker. */

/** Packets that are sent in one turn of the event loop. */
const AT_ONCE = 64;

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
      context.noteSent(1, body?.length ?? 0);
      context.noteAnswer(response.status);
      context.noteReceived((await response.arrayBuffer()).byteLength);
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

/** Joins with WebRTC. @throws {ServerFault} if the gateway refuses it */
async function joinByWebRtc({ url, apiKey: key, client, noteConnection }: AttackContext) {
  const connection = await Connection.open({ url, key, room: 'attacked' }, `attacker-${client}`);
  noteConnection();
  const join = { type: 'join', room: 'attacked', media: 'webrtc' };
  try {
    const { webrtc } = await connection.ask(join, 'joined');
    if (!webrtc) throw new Error('the gateway gave no transports');
    return { connection, description: webrtc.send_transport };
  } catch (fault) {
    connection.close();
    throw fault;
  }
}

/** Joins, connects a transport, and produces. @throws {ServerFault} if the gateway refuses it */
async function openSender(context: AttackContext, ssrc: number) {
  const joined = await joinByWebRtc(context);
  const transport = await MediaTransport.open(undefined);
  try {
    await produce(joined, transport, ssrc);
  } catch (fault) {
    joined.connection.close();
    await transport.close();
    throw fault;
  }
  const { connection } = joined;
  context.noteAccepted();
  connection.onFault = (fault) => noteFault(context, fault);
  return { connection, transport };
}

/** Connects a transport, and produces. @throws {ServerFault} if the gateway refuses it */
async function produce(
  { connection, description }: Awaited<ReturnType<typeof joinByWebRtc>>,
  transport: MediaTransport,
  ssrc: number,
): Promise<void> {
  const connect = { transport_id: description.id, dtls_parameters: transport.dtlsParameters };
  await connection.ask({ type: 'connect_transport', ...connect }, 'transport_connected');
  await transport.connect(description);
  const codec = {
    mimeType: 'audio/opus',
    payloadType: OPUS_PAYLOAD_TYPE,
    clockRate: 48_000,
    channels: 2,
  };
  const request = {
    transport_id: description.id,
    kind: 'audio',
    rtp_parameters: { codecs: [codec], encodings: [{ ssrc }] },
  };
  await connection.ask({ type: 'produce', ...request }, 'produced');
}

const noteFault = ({ noteTold }: AttackContext, fault: unknown) =>
  noteTold(fault instanceof ServerFault ? fault.code : 'no answer');

/** Sends RTP over WebRTC as fast as it can, and comes back when it is closed. */
const floodRtp: RawAttack['open'] = async (context) => {
  const ssrc = 1000 + context.client;
  let { connection, transport } = await openSender(context, ssrc);
  const comeBack = async () => {
    await transport.close();
    try {
      ({ connection, transport } = await openSender(context, ssrc));
    } catch (fault) {
      noteFault(context, fault);
      await sleep(CONNECT_AGAIN_MS);
    }
  };
  return async () => {
    for (let number = 0; !context.isOver(); number += 1) {
      if (!connection.isOpen) {
        await comeBack();
        continue;
      }
      const header = new RtpHeader({
        payloadType: OPUS_PAYLOAD_TYPE,
        ssrc,
        sequenceNumber: number & 0xffff,
        timestamp: (number * FRAME_SAMPLES) >>> 0,
      });
      const { packetsSent } = transport;
      transport.send(OPUS_FRAME, header);
      if (transport.packetsSent > packetsSent) context.noteSent(1, OPUS_FRAME.length);
      if (number % AT_ONCE === 0) await turn();
    }
    connection.onFault = () => {};
    connection.close();
    await transport.close();
  };
};

/** TCP connections of one client to a media worker. */
const UNFINISHED_FRAMES = 500;
/** Beginning of a frame of 64 KiB (RFC 4571 §2), for which the media worker keeps memory until it is whole. */
const UNFINISHED_FRAME = Buffer.alloc(60_000, 0xff);

/** Opens connections to the TCP port of a media worker on which no ICE follows. */
const fillTcpPort: RawAttack['open'] = async (context) => {
  const { connection, description } = await joinByWebRtc(context);
  const candidate = description.ice_candidates.find(({ protocol }) => protocol === 'tcp');
  if (!candidate) throw new Error('the gateway offers no TCP port');
  context.noteAccepted();
  connection.onFault = (fault) => noteFault(context, fault);
  const host = candidate.address ?? candidate.ip ?? '';
  const run = await keepWaiting(context, UNFINISHED_FRAMES, async () => {
    const socket = await openTcp(context, host, candidate.port);
    socket.on('end', () => context.noteTold('closed'));
    socket.write(UNFINISHED_FRAME, (fault) => {
      if (!fault) context.noteSent(1, UNFINISHED_FRAME.length);
    });
    return socket;
  });
  return async () => {
    await run();
    connection.onFault = () => {};
    connection.close();
  };
};

/** Clients with a DTLS handshake of their own, which one process of the load makes within its time to connect. */
const MOST_DTLS_CLIENTS = 50;
/** Clients whose TCP connections stay below the file descriptors of one process. */
const MOST_TCP_CLIENTS = 10;

export const WEBRTC_ATTACKS: RawAttack[] = [
  { name: 'WHIP sessions that begin and end', open: publish },
  {
    name: 'RTP without pause over WebRTC',
    open: floodRtp,
    mostClients: MOST_DTLS_CLIENTS,
    hasNoFloor: true,
  },
  {
    name: `${UNFINISHED_FRAMES} TCP connections to the port for WebRTC, with an unfinished frame`,
    open: fillTcpPort,
    mostClients: MOST_TCP_CLIENTS,
    hasNoFloor: true,
  },
];
