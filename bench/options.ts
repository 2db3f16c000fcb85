import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { AgainstOptions } from './against.ts';
import type { HostileOptions } from './hostile/hostile.ts';
import { type Scenario, TABLE } from './scenario.ts';

const PARTS = [
  'table',
  'pauses',
  'latency',
  'operator',
  'rush',
  'growth',
  'detection',
  'hostile',
  'sound',
  'webrtc',
  'plots',
] as const;
type Part = (typeof PARTS)[number];

/** Values of `--only` beside `--against`. */
const COMPARED: (string | undefined)[] = [undefined, 'table', 'pauses', 'sound'];

export type Options = {
  /** Measurements to make. */
  parts: readonly Part[];
  scenarios: Scenario[];
  /** Length of each window, s. */
  seconds: number;
  hostile: HostileOptions;
  /** Options of a comparison of the CPU with another checkout, which replaces all other measurements. */
  against: AgainstOptions | undefined;
  /** Folder for a profile of the gateway, which replaces all other measurements. */
  profileDir: string | undefined;
  /** Number of streams of each kind for the format detection. */
  seeds: number;
};

export const USAGE = `Usage: npm run bench -- [options]
Without options: the whole table, rooms whose speakers pause, mouth-to-ear latency, what operators feel, a rush of clients, growth, format detection, what an attacker costs the others, how speech is heard, and what WebRTC listeners cost.
  --only PART      table, pauses, latency, operator, rush, growth, detection, hostile, sound, webrtc, or plots (which writes docs/plots from docs/benchmarks.md)
One row of the table, and nothing else, with any of these:
  --rooms R        rooms (20)
  --peers N        peers in each room (10); the demo account has 500 connections
  --speakers S     of them, how many speak all the time (1)
  --delivery D     mix or forward (mix)
  --hear F         what is heard: opus or pcm (opus)
  --in-step        all speakers send at the same moment
For all:
  --seconds T      length of each measured window (4)
  --cpu-prof DIR   write a CPU profile of the gateway to DIR, and measure neither latency nor floor
  --against DIR    CPU of these rows by turns with the checkout in DIR, and nothing else; with --only, table or pauses; with --only sound, how speech is heard in both
  --pairs N        windows of each of the two for a row (7)
  --attack-seconds T  length of each attack (10)
  --rows N-M       of the hostile part only these rows (all, which writes docs/hostile.md)
  --seeds N        streams of each kind for format detection (3; 20 is the full corpus)
`;

const MAX_PEERS = 500;

/** @throws {Error} that says which option is wrong */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      rooms: { type: 'string' },
      peers: { type: 'string' },
      speakers: { type: 'string' },
      delivery: { type: 'string' },
      hear: { type: 'string' },
      'in-step': { type: 'boolean', default: false },
      seconds: { type: 'string', default: '4' },
      'cpu-prof': { type: 'string' },
      only: { type: 'string' },
      seeds: { type: 'string', default: '3' },
      against: { type: 'string' },
      pairs: { type: 'string', default: '7' },
      'attack-seconds': { type: 'string', default: '10' },
      rows: { type: 'string' },
    },
  });
  const { rooms, peers, speakers, delivery, hear } = values;
  const given = { rooms, peers, speakers, delivery, hear };
  const isOne = Object.values(given).some((value) => value !== undefined);
  const isTable = isOne || values['cpu-prof'] !== undefined;
  if (values.against !== undefined && !isOne && !COMPARED.includes(values.only)) {
    throw new Error('--against measures --only table, pauses or sound, or table and pauses');
  }
  return {
    parts: readParts(isTable ? 'table' : values.only),
    scenarios: isOne ? [{ ...readScenario(given), isInStep: values['in-step'] }] : TABLE,
    seconds: wholeNumber('seconds', values.seconds, 1),
    hostile: {
      seconds: wholeNumber('attack-seconds', values['attack-seconds'], 1),
      rows: readRows(values.rows),
    },
    against:
      values.against === undefined
        ? undefined
        : {
            folder: resolve(values.against),
            pairs: wholeNumber('pairs', values.pairs, 1),
          },
    profileDir: values['cpu-prof'],
    seeds: wholeNumber('seeds', values.seeds, 1),
  };
}

function readParts(only: string | undefined): readonly Part[] {
  if (only === undefined) return PARTS;
  const part = PARTS.find((name) => name === only);
  if (part) return [part];
  throw new Error(`--only is ${PARTS.join(', ')}`);
}

function readRows(text: string | undefined): HostileOptions['rows'] {
  if (text === undefined) return undefined;
  const [, first = '', last = ''] = /^(\d+)-(\d+)$/.exec(text) ?? [];
  return { first: wholeNumber('rows', first, 1), last: wholeNumber('rows', last, Number(first)) };
}

type Given = Record<Exclude<keyof Scenario, 'hasPauses' | 'isInStep'>, string | undefined>;

function readScenario(given: Given): Scenario {
  const { delivery = 'mix', hear = 'opus' } = given;
  if (delivery !== 'mix' && delivery !== 'forward') {
    throw new Error('--delivery is mix or forward');
  }
  if (hear !== 'opus' && hear !== 'pcm') throw new Error('--hear is opus or pcm');
  if (delivery === 'forward' && hear === 'pcm') throw new Error('what is forwarded is Opus');
  const rooms = wholeNumber('rooms', given.rooms ?? '20', 1);
  const peers = wholeNumber('peers', given.peers ?? '10', 1);
  const speakers = wholeNumber('speakers', given.speakers ?? '1', 0);
  if (speakers > peers) throw new Error('--speakers is at most --peers');
  if (rooms * peers > MAX_PEERS) throw new Error(`rooms × peers is at most ${MAX_PEERS}`);
  return { rooms, peers, speakers, delivery, hear };
}

function wholeNumber(name: string, text: string, least: number): number {
  if (/^\d+$/.test(text) && Number(text) >= least) return Number(text);
  throw new Error(`--${name} is a whole number of at least ${least}`);
}
