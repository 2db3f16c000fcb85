import buffer from 'node:buffer';
import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { ContainerIngest } from '../../../../src/audio/ingest/container-ingest.ts';
import type { ContainerReader, PacketSink } from '../../../../src/audio/ingest/container-reader.ts';
import { FormatDetector } from '../../../../src/audio/ingest/detection/detector.ts';
import { OggReader } from '../../../../src/audio/ingest/ogg-reader.ts';
import { WebmReader } from '../../../../src/audio/ingest/webm-reader.ts';
import type { Container } from '../../../../src/audio/format.ts';
import {
  boundedOpusPacket,
  carriesCopy,
  emptyOpusPacket,
  opusPacketSamples,
} from '../../../../src/audio/opus-packet.ts';
import { PartylineError } from '../../../../src/protocol/errors.ts';
import { MessageError, parseClientMessage } from '../../../../src/protocol/client-messages.ts';
import { isRtcp, parseRtpPacket, writeRtpPacket } from '../../../../src/rtp/packet.ts';
import { readQuery } from '../../../../src/admission/query.ts';
import { parseQueryString } from '../../../../src/http/query-string.ts';
import { oggOpus, webmOpus } from '../../../support/containers.ts';

/**
 * Properties that hold for all foreign bytes: no fault but those that are told to the client, work in proportion to
 * their length (counted), and bounded memory. The seed is fixed, so that a run is the same each time.
 */
fc.configureGlobal({ seed: 20_261_122, numRuns: 300 });

// `inspect` abbreviates bytes otherwise.
buffer.INSPECT_MAX_BYTES = Infinity;

const bytes = (maxLength: number) =>
  fc.uint8Array({ maxLength }).map((array) => Buffer.from(array));

function faultOf(act: () => unknown): Error | undefined {
  try {
    act();
    return undefined;
  } catch (fault) {
    return fault as Error;
  }
}

/** Lengths at which bytes are cut into messages, over and over. */
const cuts = fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 8 });

function cutAt(whole: Buffer, lengths: number[]): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0, i = 0; at < whole.length; i += 1) {
    const length = lengths[i % lengths.length]!;
    parts.push(whole.subarray(at, at + length));
    at += length;
  }
  return parts;
}

type Edit = { at: number; kind: 'set' | 'insert' | 'remove' | 'repeat'; content: Uint8Array };

/** A stream in which some things are not as they should be. */
const spoilt = (streams: Buffer[]) =>
  fc
    .tuple(
      fc.constantFrom(...streams),
      fc.array(
        fc.record<Edit>({
          at: fc.nat(4000),
          kind: fc.constantFrom('set', 'insert', 'remove', 'repeat'),
          content: fc.uint8Array({ minLength: 1, maxLength: 12 }),
        }),
        { maxLength: 6 },
      ),
    )
    .map(([stream, edits]) => edits.reduce(edit, stream));

function edit(stream: Buffer, { at, kind, content }: Edit): Buffer {
  const from = at % (stream.length + 1);
  const to = Math.min(stream.length, from + content.length);
  const [before, touched, after] = [
    stream.subarray(0, from),
    stream.subarray(from, to),
    stream.subarray(to),
  ];
  switch (kind) {
    case 'set':
      return Buffer.concat([before, content.subarray(0, to - from), after]);
    case 'insert':
      return Buffer.concat([before, content, touched, after]);
    case 'remove':
      return Buffer.concat([before, after]);
    case 'repeat':
      return Buffer.concat([stream, before]);
  }
}

const PACKETS = [40, 3, 255, 1000, 80].map((length) => Buffer.alloc(length, 0xf8));
const CONTAINERS: [Container, (onPacket: PacketSink) => ContainerReader, Buffer[]][] = [
  [
    'ogg_opus',
    (onPacket) => new OggReader(onPacket),
    [
      Buffer.concat(oggOpus(PACKETS, 20)),
      Buffer.concat(oggOpus(PACKETS, 20, { segmentsPerPage: 2 })),
    ],
  ],
  [
    'webm_opus',
    (onPacket) => new WebmReader(onPacket),
    [
      Buffer.concat(webmOpus(PACKETS, 20, { packetsPerCluster: 2 })),
      Buffer.concat(webmOpus(PACKETS, 20, { isLive: false })),
    ],
  ],
];
/** Two units of the longest kind, in memory of a power of two. */
const MAX_HELD_BYTES = 1 << 18;

describe.each(CONTAINERS)('%s', (container, open, streams) => {
  const anyStream = fc.oneof(bytes(2000), spoilt(streams), spoilt(streams));

  /** Reads a stream that comes in parts. */
  function read(parts: Buffer[]) {
    const packets: string[] = [];
    const reader = open((packet) => packets.push(packet.toString('hex')));
    let fault: string | undefined;
    for (const part of parts) {
      try {
        if (fault === undefined) reader.push(part);
      } catch (thrown) {
        fault = String(thrown);
      }
    }
    return { packets, fault, reader };
  }

  test('the same is read, however it is cut', () => {
    fc.assert(
      fc.property(anyStream, cuts, (stream, lengths) => {
        const [whole, cut] = [read([stream]), read(cutAt(stream, lengths))];
        expect(cut.packets).toEqual(whole.packets);
        expect(cut.fault).toBe(whole.fault);
      }),
    );
  });

  test('work and what comes out are in proportion to what comes in, memory is bounded', () => {
    fc.assert(
      fc.property(anyStream, cuts, (stream, lengths) => {
        const { reader, packets } = read(cutAt(stream, lengths));
        expect(reader.work).toBeLessThanOrEqual(4 * stream.length + 1000);
        expect(reader.heldBytes).toBeLessThanOrEqual(
          Math.min(MAX_HELD_BYTES, 4 * stream.length + 2000),
        );
        expect(packets.join('').length / 2).toBeLessThanOrEqual(stream.length);
      }),
    );
  });

  test('the only fault is one that the client is told, once', () => {
    fc.assert(
      fc.property(anyStream, cuts, (stream, lengths) => {
        const faults = faultsOf(container, cutAt(stream, lengths));
        expect(faults.length).toBeLessThanOrEqual(1);
        expect(faults.every((fault) => fault instanceof PartylineError)).toBe(true);
        // Not the bytes themselves.
        expect(whole(faults[0]).length).toBeLessThan(4000);
      }),
    );
  });
});

test.each<[Container, string]>([
  // An EBML header without content; no element begins with a zero byte.
  ['webm_opus', '1a45dfa380'],
  ['ogg_opus', '4f67675300020000'],
])('%s that breaks in a long message: one fault, without the bytes', (container, start) => {
  const message = Buffer.concat([Buffer.from(start, 'hex'), Buffer.alloc(60_000)]);
  const faults = faultsOf(container, [message, message]);
  expect(faults).toEqual([expect.any(PartylineError)]);
  expect(whole(faults[0]).length).toBeLessThan(4000);
});

/** Faults that a client is told of a stream that comes in parts. */
function faultsOf(container: Container, parts: Buffer[]): unknown[] {
  const faults: unknown[] = [];
  const packets = { push: () => {}, skip: () => {}, close: () => {} };
  const ingest = new ContainerIngest(container, packets, (fault) => faults.push(fault));
  for (const part of parts) ingest.push(part, 0);
  ingest.close();
  return faults;
}

/** Returns all of a fault as text, with what it holds. */
const whole = (fault: unknown) =>
  inspect(fault, {
    depth: Infinity,
    maxArrayLength: Infinity,
    maxStringLength: Infinity,
    compact: true,
  });

/** Wraps bytes so that each that is read is counted. */
function countReads(original: Buffer): { packet: Buffer; reads: () => number } {
  let reads = 0;
  const packet = new Proxy(original, {
    get: (target, key) => {
      if (typeof key === 'string' && /^\d+$/.test(key)) reads += 1;
      const value: unknown = Reflect.get(target, key);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  return { packet, reads: () => reads };
}

describe('Opus packets', () => {
  let codecs: Codecs;
  beforeAll(async () => {
    codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 0 });
  });

  /** Any bytes, and such as look like many frames or much padding. */
  const anyPacket = fc.oneof(
    bytes(3000),
    fc
      .tuple(fc.nat(31), fc.nat(255), fc.nat(40), bytes(1500))
      .map(([config, head, padding, body]) =>
        Buffer.concat([Buffer.of((config << 3) | 3, head), Buffer.alloc(padding, 255), body]),
      ),
  );

  test('each byte is read once to learn the duration, and once more to bound the length', () => {
    const padded = fc
      .tuple(fc.nat(31), fc.nat(255), fc.nat(5000), bytes(1500))
      .map(([config, head, padding, body]) =>
        Buffer.concat([Buffer.of((config << 3) | 3, head), Buffer.alloc(padding, 255), body]),
      );
    fc.assert(
      fc.property(fc.oneof(anyPacket, padded), (bare) => {
        const { packet, reads } = countReads(bare);
        const samples = opusPacketSamples(packet);
        expect(reads()).toBeLessThanOrEqual(bare.length + 3);
        if (samples !== undefined) boundedOpusPacket(packet, samples);
        expect(reads()).toBeLessThanOrEqual(2 * (bare.length + 3));
      }),
    );
  });

  test('a packet is malformed, or has a duration that Opus knows and decodes to as much', async () => {
    const decoder = await codecs.opus.createDecoder();
    fc.assert(
      fc.property(anyPacket, (packet) => {
        const samples = opusPacketSamples(packet);
        if (samples === undefined) return;
        expect(samples % 120).toBe(0);
        expect(samples).toBeGreaterThan(0);
        expect(samples).toBeLessThanOrEqual(5760);
        expect(decoder.decode(packet)).toHaveLength(samples);
        expect(opusPacketSamples(emptyOpusPacket(packet))).toBe(samples);
        expect(carriesCopy(packet)).toBeTypeOf('boolean');
      }),
    );
    decoder.close();
  });

  test('a forwarded packet is no longer than the original, bounded, and lasts as long', () => {
    fc.assert(
      fc.property(anyPacket, (packet) => {
        const samples = opusPacketSamples(packet);
        const bounded = samples === undefined ? undefined : boundedOpusPacket(packet, samples);
        if (samples === undefined || !bounded) return;
        expect(bounded.length).toBeLessThanOrEqual(Math.min(packet.length, 9000));
        expect(opusPacketSamples(bounded)).toBe(samples);
        expect(boundedOpusPacket(bounded, samples)).toBe(bounded);
      }),
    );
  });
});

describe('RTP packets', () => {
  const level = fc.integer({ min: 1, max: 14 });

  /** Head without CSRCs, and a header extension of one-byte elements, which may be padding alone. */
  const extended = fc
    .tuple(
      fc.nat(200),
      fc.oneof(
        bytes(800),
        fc.nat(800).map((length) => Buffer.alloc(length)),
      ),
      bytes(20),
    )
    .map(([words, elements, rest]) => {
      const head = Buffer.alloc(16);
      head[0] = 0x90;
      head.writeUInt32BE(0xbede0000 + words, 12);
      return Buffer.concat([head, elements, rest]);
    });
  const datagram = fc.oneof(
    bytes(200),
    extended,
    fc
      .tuple(fc.nat(63), fc.nat(255), bytes(200))
      .map(([flags, type, rest]) => Buffer.concat([Buffer.of(0x80 | flags, type), rest])),
  );

  test('of any bytes: refused, or a payload that lies within them', () => {
    fc.assert(
      fc.property(datagram, level, (packet, extensionId) => {
        expect(isRtcp(packet)).toBeTypeOf('boolean');
        const parsed = parseRtpPacket(packet, extensionId);
        if (!parsed) return;
        const { payload, audioLevel = 0 } = parsed;
        expect(payload.buffer).toBe(packet.buffer);
        expect(payload.length).toBeLessThanOrEqual(packet.length - 12);
        expect(audioLevel).toBeGreaterThanOrEqual(0);
        expect(audioLevel).toBeLessThanOrEqual(127);
      }),
    );
  });

  test('no byte of the extension is read twice', () => {
    fc.assert(
      fc.property(datagram, level, (original, extensionId) => {
        const { packet, reads } = countReads(original);
        parseRtpPacket(packet, extensionId);
        // Three more: the flags, the type and the length of the padding.
        expect(reads()).toBeLessThanOrEqual(original.length + 3);
      }),
    );
  });

  test('that were written are read as they were', () => {
    const packet = fc.record({
      sequenceNumber: fc.nat(0xffff),
      timestamp: fc.nat(0xffff_ffff),
      marker: fc.boolean(),
      audioLevel: fc.nat(127),
      payload: bytes(300),
    });
    fc.assert(
      fc.property(packet, fc.nat(0xffff_ffff), fc.nat(127), level, (media, ssrc, type, id) => {
        const stream = { ssrc, payloadType: type, levelExtensionId: id };
        const parsed = parseRtpPacket(writeRtpPacket(media, stream), id);
        expect(parsed).toEqual({ ...media, ssrc, payloadType: type });
      }),
    );
  });
});

/** Bytes at which a detector decides, whatever it knows, and the number of messages. */
const MAX_DETECTING_BYTES = 1 << 20;
const MAX_DETECTING_MESSAGES = 1024;

test('a detector of formats takes any messages, says something at the latest after 1024 or 1 MB, and holds no more', () => {
  const message = fc.record({ message: fc.oneof(bytes(8), bytes(700)), gapMs: fc.nat(60) });
  // Neither the bytes nor the pace of silence that comes at once say anything.
  const silence = fc.record({
    message: fc.integer({ min: 1, max: 65_536 }).map((length) => Buffer.alloc(length)),
    gapMs: fc.nat(1),
  });
  const arrivals = fc.array(
    fc.oneof(message, silence).filter((arrival) => arrival.message.length > 0),
    { minLength: 1, maxLength: 40 },
  );
  const burst = fc.array(silence, { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(fc.oneof(arrivals, burst), (messages) => {
      const detector = new FormatDetector();
      let atMs = 0;
      let detection;
      let lastBytes = 0;
      for (let i = 0; i < MAX_DETECTING_MESSAGES && !detection; i += 1) {
        const next = messages[i % messages.length]!;
        atMs += next.gapMs;
        lastBytes = next.message.length;
        detection = detector.push(next.message, atMs);
      }
      // Zero for digital silence, which says nothing.
      expect(detection?.confidence).toBeGreaterThanOrEqual(0);
      const heldBytes = detector.arrivals.reduce((sum, held) => sum + held.message.length, 0);
      expect(heldBytes - lastBytes).toBeLessThan(MAX_DETECTING_BYTES);
    }),
    { numRuns: 100 },
  );
});

describe('client messages', () => {
  const known = fc.constantFrom(
    'join',
    'leave',
    'configure',
    'connect_transport',
    'produce',
    'pause_producer',
    'resume_producer',
    'resume_consumer',
    'restart_ice',
    '__proto__',
  );
  const field = fc.constantFrom(
    'room',
    'media',
    'id',
    'audio',
    'audio_out',
    'delivery',
    'volume',
    'mute',
    'transport_id',
    'producer_id',
    'consumer_id',
    'rtp_parameters',
    'dtls_parameters',
    'rtp_capabilities',
    'kind',
  );
  const anyText = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .tuple(known, fc.dictionary(field, fc.jsonValue()))
      .map(([type, fields]) => JSON.stringify({ ...fields, type })),
  );

  test('of any text: a message of a known type, or a fault that is told in few words', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const fault = faultOf(() => parseClientMessage(text));
        expect(fault === undefined || fault instanceof MessageError).toBe(true);
        expect(fault?.message.length ?? 0).toBeLessThan(text.length + 1000);
      }),
    );
  });

  test.each(['[', '{"type":', '{"type":"join","rtp_capabilities":', '{"a":'])(
    'of %s, again and again: told',
    (opening) => {
      const text = opening.repeat(60_000 / opening.length);
      expect(() => parseClientMessage(text)).toThrow(MessageError);
    },
  );

  test('of arrays within arrays, 30,000 deep: told, or taken', () => {
    const deep = `${'['.repeat(30_000)}${']'.repeat(30_000)}`;
    for (const name of ['room', 'rtp_capabilities', 'other']) {
      const parse = () => parseClientMessage(`{"type":"join","room":"a","${name}":${deep}}`);
      expect(faultOf(parse)?.constructor).toBeOneOf([undefined, MessageError]);
    }
  });
});

/** Number of parameters that `/ws` knows. */
const QUERY_NAMES = 10;

describe('queries', () => {
  const name = fc.constantFrom('room', 'peer', 'audio', 'audio_out', 'delivery', 'stats', 'token');
  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string(),
    fc.constantFrom('a', '__lobby__', 'opus', 'pcm_s16le;rate=8000;channels=1', 'mix', '%', '%00'),
    // Longer than any name.
    fc.nat(4000).map((length) => 'a'.repeat(length)),
  );
  const encoded = fc.tuple(name, value, fc.boolean()).map(([key, text, isEncoded]) => {
    const wellFormed = text.toWellFormed();
    return `${key}=${isEncoded ? encodeURIComponent(wellFormed) : wellFormed}`;
  });
  const parameters = fc.array(encoded, { maxLength: 8 }).map((parts) => parts.join('&'));
  const query = fc.oneof(
    fc.string(),
    parameters,
    parameters.map((text) => `room=a&peer=b&${text}`),
  );
  const sum = (lengths: number[]) => lengths.reduce((total, length) => total + length, 0);

  test('of any text: read, or refused with a fault that is told', () => {
    fc.assert(
      fc.property(query, (text) => {
        const fault = faultOf(() => readQuery(`/ws?${text}`));
        expect(fault === undefined || fault instanceof PartylineError).toBe(true);
        expect(fault?.message.length ?? 0).toBeLessThan(400);
      }),
    );
  });

  test('the parameters are searched once for each name, and the characters of one value are counted', () => {
    using searches = vi.spyOn(URLSearchParams.prototype, 'getAll');
    using splits = vi.spyOn(Array, 'from');
    fc.assert(
      fc.property(query, (text) => {
        searches.mockClear();
        splits.mockClear();
        faultOf(() => readQuery(`/ws?${text}`));
        const names = searches.mock.calls.map(([searched]) => searched);
        expect(new Set(names).size).toBe(names.length);
        expect(names.length).toBeLessThanOrEqual(QUERY_NAMES);
        const split = splits.mock.calls.map(([from]) =>
          typeof from === 'string' ? from.length : 0,
        );
        expect(sum(split)).toBeLessThanOrEqual(text.length);
      }),
    );
  });

  test('of any text: each value is held once, and no longer than it came', () => {
    const repeated = fc.nat(2000).map((times) => 'a=b&'.repeat(times));
    fc.assert(
      fc.property(fc.oneof(query, repeated), (text) => {
        const values = Object.values(parseQueryString(text)).flat();
        expect(values.length).toBeLessThanOrEqual(text.split('&').length);
        expect(sum(values.map((held) => held.length))).toBeLessThanOrEqual(text.length);
      }),
    );
  });
});
