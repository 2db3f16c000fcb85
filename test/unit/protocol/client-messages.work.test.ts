import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { MessageError, parseClientMessage } from '../../../src/protocol/client-messages.ts';

/** Work that the text of a client causes: counted, not timed. */

const SEED = 20_261_127;

/** Work of one text, counted in characters and looks. */
type Work = {
  /** Characters that are parsed as JSON. */
  parsed: number;
  /** Characters that patterns are tried on. */
  matched: number;
  /** Those, and characters in which patterns are searched for, as `replace` does. */
  searched: number;
  /** Looks at values and their names. */
  looks: number;
};

/** Wraps a value so that each look at a part of it is counted. */
function watch(value: unknown, work: Work): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return new Proxy(value, {
    get: (target, key) => {
      work.looks += 1;
      const part: unknown = Reflect.get(target, key);
      return Object.hasOwn(target, key) ? watch(part, work) : part;
    },
    has: (target, key) => {
      work.looks += 1;
      return Reflect.has(target, key);
    },
    ownKeys: (target) => {
      const keys = Reflect.ownKeys(target);
      work.looks += keys.length;
      return keys;
    },
    getOwnPropertyDescriptor: (target, key) => {
      work.looks += 1;
      return Reflect.getOwnPropertyDescriptor(target, key);
    },
  });
}

function workOf(text: string): Work {
  const work = { parsed: 0, matched: 0, searched: 0, looks: 0 };
  const readJson = JSON.parse;
  type Tried<T> = (this: RegExp, text: string) => T;
  const tryPattern = Reflect.get(RegExp.prototype, 'test') as Tried<boolean>;
  const search = Reflect.get(RegExp.prototype, 'exec') as Tried<RegExpExecArray | null>;
  using spies = new DisposableStack();
  spies.use(
    vi.spyOn(JSON, 'parse').mockImplementation((json) => {
      work.parsed += json.length;
      return watch(readJson(json), work);
    }),
  );
  spies.use(
    vi.spyOn(RegExp.prototype, 'test').mockImplementation(function (this: RegExp, tried) {
      work.matched += tried.length;
      return tryPattern.call(this, tried);
    }),
  );
  // `test`, `match`, `replace` and `split` call it.
  spies.use(
    vi.spyOn(RegExp.prototype, 'exec').mockImplementation(function (this: RegExp, searched) {
      work.searched += searched.length;
      return search.call(this, searched);
    }),
  );
  try {
    parseClientMessage(text);
  } catch (fault) {
    if (!(fault instanceof MessageError)) throw fault;
  }
  return work;
}

/** Returns the kinds of work of which a text causes more than in proportion to its length; it is to be parsed once. */
function excessOf(text: string): string[] {
  // A name of a codec's parameter is tried on several patterns.
  const most = {
    parsed: text.length,
    matched: 6 * text.length,
    // Paths of faults are searched for characters that need an escape.
    searched: 8 * text.length + 100,
    looks: 2 * text.length + 100,
  };
  const work = workOf(text);
  return (['parsed', 'matched', 'searched', 'looks'] as const).filter(
    (kind) => work[kind] > most[kind],
  );
}

const TYPES = [
  'join',
  'leave',
  'configure',
  'connect_transport',
  'produce',
  'pause_producer',
  'resume_consumer',
  'restart_ice',
  'dance',
];
const NAMES = [
  'room',
  'media',
  'id',
  'audio',
  'volume',
  'mute',
  'transport_id',
  'rtp_parameters',
  'dtls_parameters',
  'rtp_capabilities',
  'kind',
  'codecs',
  'encodings',
  'parameters',
  'headerExtensions',
  'rtcpFeedback',
  'fingerprints',
];
const { object } = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 4 },
    fc.string(),
    fc.integer(),
    fc.boolean(),
    tie('list'),
    tie('object'),
  ),
  list: fc.array(tie('any'), { maxLength: 5 }),
  object: fc.dictionary(fc.oneof(fc.constantFrom(...NAMES), fc.string()), tie('any'), {
    maxKeys: 8,
  }),
}));

test('work is counted', () => {
  const text = '{"type":"configure","volume":{"ada":1}}';
  const { parsed, matched, searched, looks } = workOf(text);
  expect(parsed).toBe(text.length);
  expect(matched).toBeGreaterThanOrEqual('ada'.length);
  expect(searched).toBeGreaterThanOrEqual(matched);
  expect(workOf('{"type":"join"}').searched).toBeGreaterThan(0);
  expect(looks).toBeGreaterThanOrEqual(3);
});

test('a client message of any fields is parsed once, and looked through in proportion to its length', () => {
  fc.assert(
    fc.property(fc.constantFrom(...TYPES), object, (type, fields) => {
      expect(excessOf(JSON.stringify({ ...(fields as object), type }))).toEqual([]);
    }),
    { seed: SEED, numRuns: 500 },
  );
});

describe.each([100, 1000])('messages with %i of everything', (count) => {
  const times = <T>(make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => make(i));
  const record = <T>(make: (index: number) => T) =>
    Object.fromEntries(times((i) => [`p${i}`, make(i)] as const));
  const codec = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2 };
  const produce = (codecs: unknown[], more: object = {}) => ({
    type: 'produce',
    transport_id: 't',
    kind: 'audio',
    rtp_parameters: { codecs, encodings: [{ ssrc: 1 }], ...more },
  });
  const feedback = times(() => ({ type: 'nack', parameter: 'pli' }));
  const join = (capabilities: object) => ({
    type: 'join',
    room: 'a',
    rtp_capabilities: capabilities,
  });

  test.each<[string, object]>([
    ['parameters', produce([{ ...codec, payloadType: 100, parameters: record((i) => i) }])],
    ['wrong parameters', produce([{ ...codec, payloadType: 100, parameters: record(() => ({})) }])],
    [
      'a long name',
      produce([{ ...codec, payloadType: 100, parameters: { ['x'.repeat(count)]: 1 } }]),
    ],
    ['feedback', produce([{ ...codec, payloadType: 100, rtcpFeedback: feedback }])],
    ['codecs', produce(times(() => ({ ...codec, payloadType: 100 })))],
    ['wrong codecs', produce(times(() => ({ mimeType: 5 })))],
    ['encodings', produce([], { encodings: times((ssrc) => ({ ssrc })) })],
    ['extensions', produce([], { headerExtensions: times((id) => ({ uri: 'x', id })) })],
    ['capabilities', join({ codecs: times(() => ({ ...codec, kind: 'audio' })) })],
    ['wrong capabilities', join({ codecs: times(() => 5) })],
    ['volumes', { type: 'configure', volume: record((i) => i % 3) }],
    ['wrong volumes', { type: 'configure', volume: record(() => 'x') }],
    [
      'fingerprints',
      {
        type: 'connect_transport',
        transport_id: 't',
        dtls_parameters: { fingerprints: times(() => ({ algorithm: 'sha-256', value: 'x' })) },
      },
    ],
    ['unknown fields', { type: 'leave', ...record((i) => i) }],
  ])('%s', (_name, message) => {
    expect(excessOf(JSON.stringify(message))).toEqual([]);
  });
});
