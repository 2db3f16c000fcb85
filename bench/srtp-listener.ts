import { parse } from 'sdp-transform';
import { Connection } from '../packages/canary/src/connection.ts';
import { MediaTransport } from '../packages/canary/src/media-transport.ts';
import type { TransportDescription } from '../packages/canary/src/messages.ts';
import { recordedOffer } from '../test/support/offers.ts';

/** Room of a gateway in which listeners are, and the number of speakers that each of them hears. */
export type ListeningPlace = { url: string; key: string; room: string; speakers: number };

/** Listener over SRTP, with real ICE and DTLS; it counts packets, and does not decrypt them. */
export type SrtpListener = {
  /** Time until the gateway answered with its end of the transport, ms. */
  answeredMs: number;
  /** Time until audio could come, ms. */
  joinedMs: number;
  readonly packets: number;
  close(): Promise<void>;
};

/** First byte of RTP, and second byte of RTCP (RFC 5761 §4). */
const RTP_VERSION_2 = 2;
const RTCP_TYPES = { from: 192, to: 223 };

const isRtp = (bytes: Buffer) =>
  bytes[0]! >> 6 === RTP_VERSION_2 && !(bytes[1]! >= RTCP_TYPES.from && bytes[1]! <= RTCP_TYPES.to);

/** Counts the audio packets of a transport. */
class Counter {
  packets = 0;

  constructor(transport: MediaTransport) {
    transport.onDatagram = (bytes) => {
      if (isRtp(bytes)) this.packets += 1;
    };
  }
}

/** Listens as a browser does: one consumer for each speaker. */
export async function listenAsBrowser(place: ListeningPlace, peer: string): Promise<SrtpListener> {
  const startMs = performance.now();
  const connection = await Connection.open({ ...place }, peer);
  const allHeard = Promise.withResolvers<void>();
  let consumers = 0;
  connection.onMessage = (message) => {
    if (message.type !== 'new_consumer') return;
    const request = { type: 'resume_consumer', consumer_id: message.consumer_id };
    connection.ask(request, 'consumer_resumed').then(() => {
      consumers += 1;
      if (consumers === place.speakers) allHeard.resolve();
    }, allHeard.reject);
  };
  const join = { type: 'join', room: place.room, media: 'webrtc' };
  const { webrtc } = await connection.ask(join, 'joined');
  if (!webrtc) throw new Error('the gateway gave no transports');
  const answeredMs = performance.now() - startMs;
  const transport = await MediaTransport.open(undefined, false);
  const counter = new Counter(transport);
  const { recv_transport: description } = webrtc;
  const connect = {
    type: 'connect_transport',
    transport_id: description.id,
    dtls_parameters: transport.dtlsParameters,
  };
  await connection.ask(connect, 'transport_connected');
  await transport.connect(description);
  await allHeard.promise;
  return {
    answeredMs,
    joinedMs: performance.now() - startMs,
    get packets() {
      return counter.packets;
    },
    close: async () => {
      connection.close();
      await transport.close();
    },
  };
}

/** Listens over WHEP: one stream, the room's mix. */
export async function listenByWhep(place: ListeningPlace, peer: string): Promise<SrtpListener> {
  const startMs = performance.now();
  const transport = await MediaTransport.open(undefined, false);
  const counter = new Counter(transport);
  const [fingerprint] = transport.dtlsParameters.fingerprints;
  const offer = recordedOffer('chromium-whep').replace(
    /^a=fingerprint:.*$/gm,
    `a=fingerprint:${fingerprint!.algorithm} ${fingerprint!.value}`,
  );
  const headers = { authorization: `Bearer ${place.key}` };
  const response = await fetch(`${place.url}/whep/${place.room}?peer=${peer}`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/sdp' },
    body: offer,
  });
  const answer = await response.text();
  if (response.status !== 201) throw new Error(`${response.status}: ${answer}`);
  const answeredMs = performance.now() - startMs;
  await transport.connect(readAnswer(answer));
  return {
    answeredMs,
    joinedMs: performance.now() - startMs,
    get packets() {
      return counter.packets;
    },
    close: () => transport.close(),
  };
}

/** Returns the gateway's end of the transport from the answer to an offer. */
function readAnswer(sdp: string): TransportDescription {
  const [section] = parse(sdp).media;
  const { iceUfrag = '', icePwd = '', fingerprint, candidates = [] } = section ?? {};
  if (!fingerprint) throw new Error('the answer has no fingerprint');
  return {
    id: '',
    ice_parameters: { usernameFragment: iceUfrag, password: icePwd },
    ice_candidates: candidates.map((candidate) => ({
      foundation: candidate.foundation,
      priority: candidate.priority,
      address: candidate.ip,
      protocol: candidate.transport === 'tcp' ? 'tcp' : 'udp',
      port: candidate.port,
      type: candidate.type,
      ...(candidate.tcptype !== undefined && { tcpType: candidate.tcptype }),
    })),
    dtls_parameters: { fingerprints: [{ algorithm: fingerprint.type, value: fingerprint.hash }] },
  };
}
