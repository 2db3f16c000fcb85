import { type Random, seededRandom } from '../../test/support/random.ts';

/** Plan of a soak: the actions of each peer and their times, all derived from the seed. */

export const FAULT_KINDS = [
  'media-worker-killed',
  'media-worker-paused',
  'media-worker-hung',
  'redis-hung',
  'redis-killed',
  'usage-worker-killed',
  'gateway-killed',
  'gateway-drained',
  'clients-do-not-read',
  'burst',
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export type Fault = {
  kind: FaultKind;
  /** Time since the beginning, ms. */
  atMs: number;
  node: number;
  /** Peers that do not read. */
  peers: number[];
};

export type Act =
  | { type: 'idle' | 'talk' | 'leave'; ms: number }
  | { type: 'move'; room: string }
  | { type: 'send'; text: string };

/** Visit of a peer: one connection, from its beginning to its end. */
export type Visit = {
  /** Time for which the peer was away before, ms. */
  awayMs: number;
  node: number;
  /**
   * Way in which the peer comes back: by its token to its place; by its name to its room; or as a new peer,
   * to another room.
   */
  comes: 'by token' | 'by name' | 'anew';
  room: string;
  /** True if the peer names its room in the query; otherwise it joins afterwards. */
  isRoomInQuery: boolean;
  acts: Act[];
  /** End of the visit: closed on purpose, or cut off. */
  ends: 'close' | 'vanish';
};

const SHORTEST_GAP_MS = 4500;
const LONGEST_GAP_MS = 25_000;
const SLOW_CLIENTS = 5;
const ROOM_SIZE = 8;
const WRONG_MESSAGES = [
  'this is not JSON',
  '{"type":"nonsense"}',
  '{"type":"join"}',
  '{"type":"join","room":"__reserved__"}',
  '{"type":"produce","transport_id":"x","kind":"audio","rtp_parameters":{}}',
];

type FaultPlan = {
  seed: number;
  durationMs: number;
  peers: number;
  nodes: number;
  kinds: readonly FaultKind[];
};

/** Returns faults of every kind once, in a random order, and again in another order, until the time is over. */
export function planFaults({ seed, durationMs, peers, nodes, kinds }: FaultPlan): Fault[] {
  if (kinds.length === 0) return [];
  const random = seededRandom(seed);
  const gapMs = Math.min(
    LONGEST_GAP_MS,
    Math.max(SHORTEST_GAP_MS, durationMs / (kinds.length + 2)),
  );
  const faults: Fault[] = [];
  let waiting: FaultKind[] = [];
  let atMs = gapMs;
  while (atMs < durationMs - gapMs / 2) {
    if (waiting.length === 0) waiting = shuffled(kinds, random);
    const kind = waiting.pop()!;
    const endsNode = kind === 'gateway-killed' || kind === 'gateway-drained';
    const first = endsNode && nodes > 1 ? 1 : 0;
    const node = first + whole(random, nodes - first);
    const slow = Array.from({ length: SLOW_CLIENTS }, () => whole(random, peers));
    faults.push({ kind, atMs, node, peers: slow });
    atMs += gapMs * (0.8 + 0.4 * random());
  }
  return faults;
}

/** Returns the number of rooms of `peers` peers. */
export const roomsFor = (peers: number) => Math.ceil(peers / ROOM_SIZE);

/** Yields the visits of one peer, endlessly. */
export function* planVisits(
  seed: number,
  { nodes, rooms, resumeMs }: { nodes: number; rooms: number; resumeMs: number },
): Generator<Visit> {
  const random = seededRandom(seed);
  const room = () => `room ${whole(random, rooms)}`;
  let awayMs = 5000 * random();
  let inRoom = room();
  for (let isFirst = true; ; isFirst = false) {
    const comes = isFirst ? 'anew' : pick(['by token', 'by name', 'anew'] as const, random);
    if (comes === 'anew') inRoom = room();
    const acts = Array.from({ length: 2 + whole(random, 6) }, () => planAct(random, room));
    yield {
      awayMs,
      node: whole(random, nodes),
      comes,
      room: inRoom,
      isRoomInQuery: random() < 0.5,
      acts,
      ends: random() < 0.4 ? 'close' : 'vanish',
    };
    const moves = acts.filter((act) => act.type === 'move');
    inRoom = moves.at(-1)?.room ?? inRoom;
    // Most peers come back in time; some come too late.
    awayMs = resumeMs * (random() < 0.85 ? 0.02 + 0.5 * random() : 1.1);
  }
}

function planAct(random: Random, room: () => string): Act {
  const chance = random();
  if (chance < 0.25) return { type: 'talk', ms: 1000 + 2000 * random() };
  if (chance < 0.75) return { type: 'idle', ms: 2000 + 14_000 * random() };
  if (chance < 0.87) return { type: 'move', room: room() };
  if (chance < 0.95) return { type: 'leave', ms: 3000 * random() };
  return { type: 'send', text: pick(WRONG_MESSAGES, random) };
}

/** Returns a random whole number of 0…limit − 1. */
const whole = (random: Random, limit: number) => Math.floor(random() * limit);
const pick = <T>(values: readonly T[], random: Random): T => values[whole(random, values.length)]!;
const shuffled = <T>(values: readonly T[], random: Random): T[] =>
  values
    .map((value) => ({ value, order: random() }))
    .toSorted((one, other) => one.order - other.order)
    .map(({ value }) => value);
