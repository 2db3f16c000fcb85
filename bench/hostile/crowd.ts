import { once } from 'node:events';
import { MediaTransport } from '../../packages/canary/src/media-transport.ts';
import { BUSY_MONTH } from './busy-month.ts';
import { all, Member } from './member.ts';
import { type CrowdReport, type Moment, MOMENTS, type Places } from './moment.ts';

/**
 * A process that is a crowd: `crowd.ts MOMENT PLACES`, the index of the moment and JSON. It prints `ready {}` when the moment can
 * begin, begins when its parent sends a word, and sends its report when all have been told of all.
 */

const ROOM = 'crowd';
const CONNECT_AT_ONCE = 25;
const BROWSERS = 100;
/** Browsers that each browser hears. */
const OTHERS = BROWSERS - 1;
/** Peers that stay in a room which all others leave. */
const STAYING = 10;

const [, , index = '', places = ''] = process.argv;
const { url, otherUrl, apiKey } = JSON.parse(places) as Places;

/** Connects `count` members to the lobby of a node, some at a time. */
async function connect(count: number, to = url): Promise<Member[]> {
  const members = Array.from({ length: count }, (_, n) => new Member(`peer-${n}`, apiKey));
  for (let first = 0; first < count; first += CONNECT_AT_ONCE) {
    const some = members.slice(first, first + CONNECT_AT_ONCE);
    for (const member of some) member.connect(to);
    await all(some, 'connected', ({ session }) => session !== undefined);
  }
  return members;
}

async function enterOne(members: Member[]): Promise<void> {
  for (const member of members) member.send({ type: 'join', room: ROOM });
  await allKnowAll(members);
}

const allKnowAll = (members: Member[]) =>
  all(
    members,
    'knows all',
    ({ joined, others }) => joined !== undefined && others === members.length - 1,
  );

async function enterTogether(count: number, to?: string): Promise<Member[]> {
  const members = await connect(count, to);
  await enterOne(members);
  for (const member of members) member.forget();
  return members;
}

function produce(member: Member, ssrc: number): void {
  member.send({
    type: 'produce',
    transport_id: member.joined?.webrtc?.send_transport.id,
    kind: 'audio',
    rtp_parameters: {
      codecs: [{ mimeType: 'audio/opus', payloadType: 111, clockRate: 48_000, channels: 2 }],
      encodings: [{ ssrc }],
    },
  });
}

/**
 * Connects the transport by which a browser hears, with real ICE and DTLS: the gateway offers most consumers only afterwards.
 * @returns when it was connected, by `performance.now()`
 */
async function listen(member: Member, transport: MediaTransport): Promise<number> {
  const description = member.joined?.webrtc?.recv_transport;
  if (!description) throw new Error('the gateway gave no transports');
  const isTaken = Promise.withResolvers<void>();
  member.onTransportConnected = isTaken.resolve;
  member.send({
    type: 'connect_transport',
    transport_id: description.id,
    dtls_parameters: transport.dtlsParameters,
  });
  await isTaken.promise;
  await transport.connect(description);
  return performance.now();
}

let startMs = 0;
let toldMs = 0;
/** Notes that all have been told; what else happens in the moment does not count. */
const noteTold = () => (toldMs ||= performance.now() - startMs);
let offeredAfterMs: number | undefined;

/** Prepares each moment; returns a function that is the moment itself. */
const PREPARE: Record<Moment, () => Promise<() => Promise<void>>> = {
  '100 browsers come into one room and produce': async () => {
    const members = await connect(BROWSERS);
    const transports = await Promise.all(members.map(() => MediaTransport.open(undefined, false)));
    return async () => {
      let producedAtMs = 0;
      const listening = members.map(async (member, place) => {
        await new Promise<void>((resolve) => (member.onJoined = resolve));
        produce(member, 1000 + place);
        producedAtMs = performance.now();
        return listen(member, transports[place]!);
      });
      for (const member of members) member.send({ type: 'join', room: ROOM, media: 'webrtc' });
      await Promise.all([
        all(members, 'is offered all', ({ consumers }) => consumers.offered === OTHERS),
        allKnowAll(members),
      ]);
      noteTold();
      await all(members, 'has resumed all', ({ consumers }) => consumers.resumed === OTHERS);
      const connectedAtMs = await Promise.all(listening);
      const waits = members.map(
        ({ consumers }, place) =>
          consumers.offeredAtMs - Math.max(connectedAtMs[place]!, producedAtMs),
      );
      offeredAfterMs = Math.max(...waits);
    };
  },
  '400 peers come into one room': async () => {
    const members = await connect(400);
    return () => enterOne(members);
  },
  '400 peers leave one room, and 10 stay': async () => {
    const members = await connect(400 + STAYING);
    await enterOne(members);
    const [staying, leaving] = [members.slice(0, STAYING), members.slice(STAYING)];
    return async () => {
      for (const member of leaving) member.send({ type: 'leave' });
      await Promise.all([
        all(leaving, 'left', ({ hasLeft }) => hasLeft),
        all(staying, 'is told of all who left', ({ others }) => others === STAYING - 1),
      ]);
    };
  },
  '400 peers go from one room into 400': async () => {
    const members = await enterTogether(400);
    return async () => {
      for (const member of members) member.send({ type: 'join', room: member.peer });
      await all(members, 'joined', ({ joined }) => joined !== undefined);
    };
  },
  '500 peers of one room come back after their node has died': async () => {
    const members = await enterTogether(500, otherUrl);
    for (const member of members) member.onClose = () => member.connect(url);
    return () => allKnowAll(members);
  },
  '400 peers of one room go elsewhere as their node drains': async () => {
    const members = await enterTogether(400);
    for (const member of members) member.onDraining = () => member.connect(otherUrl);
    return () => allKnowAll(members);
  },
  'a usage report of a busy month, by the minute': async () => {
    return async () => {
      const headers = { authorization: `Bearer ${apiKey}` };
      const response = await fetch(new URL(`/api/usage?${BUSY_MONTH}`, url), { headers });
      if (!response.ok || !response.body) throw new Error(`no report: ${response.status}`);
      let bytes = 0;
      for await (const chunk of response.body) bytes += (chunk as Uint8Array).length;
      if (bytes < 1e6) throw new Error(`a report of ${bytes} bytes`);
    };
  },
};

const begin = await PREPARE[MOMENTS[Number(index)]!]();
const told = once(process, 'message');
process.stdout.write('ready {}\n');
await told;
startMs = performance.now();
await begin();
noteTold();
const report: CrowdReport = { toldMs, ...(offeredAfterMs !== undefined && { offeredAfterMs }) };
process.send?.(report);
