import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { beforeAll, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import { type DeclaredFormat, formatAudioFormat } from '../../../src/audio/format.ts';
import { writeSamples } from '../../../src/audio/samples.ts';
import { ClientInput } from '../../../src/session/client-input.ts';
import { flacFrame } from '../../support/flac-frames.ts';
import { pcmTone } from '../../support/sound.ts';

/** Work that a hostile client causes with messages that are held until their format is known, counted in packets. */

const PCMU: DeclaredFormat = { codec: 'pcmu', rateHz: 8000, channels: 1 };
const MESSAGE_BYTES = 65_536;
/** Maximum packets of one client at once: 12 s. */
const MAX_PACKETS = 12 * 50;

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
});

/** Sound of a voice that never repeats, as messages of mu-law of 8.2 s each. */
function longMessages(count: number): Buffer[] {
  const samples = new Float32Array(count * MESSAGE_BYTES);
  let [phase, noise] = [0, 0];
  for (const i of samples.keys()) {
    const t = i / 8000;
    phase += (2 * Math.PI * (140 + 40 * Math.sin(t * 3.1) + 15 * Math.sin(t * 17))) / 8000;
    noise = 0.9 * noise + 0.1 * (((i * 7919) % 1013) / 1013 - 0.5);
    const voice = Math.sin(phase) + 0.5 * Math.sin(2 * phase) + 0.3 * Math.sin(3 * phase);
    samples[i] = (0.25 + 0.2 * Math.sin(t * 5.3)) * voice * 0.5 + noise * 0.05;
  }
  const bytes = writeSamples(samples, 'pcmu');
  return Array.from({ length: count }, (_, i) =>
    bytes.subarray(i * MESSAGE_BYTES, (i + 1) * MESSAGE_BYTES),
  );
}

/** Input of a client, and the number of packets that it has had encoded. Its turns come when `turns` are called. */
function openInput(declared: DeclaredFormat, isJoining: () => boolean = () => true) {
  const turns: (() => void)[] = [];
  const detected: string[] = [];
  const faults: unknown[] = [];
  const encoded = { packets: 0 };
  const counting: Codecs = {
    ...codecs,
    opus: {
      ...codecs.opus,
      createEncoder: async (rateHz) => {
        const encoder = await codecs.opus.createEncoder(rateHz);
        return {
          prime: (frame) => encoder.prime(frame),
          beginAnew: () => encoder.beginAnew(),
          close: () => encoder.close(),
          encode: (frame) => {
            encoded.packets += 1;
            return encoder.encode(frame);
          },
        };
      },
    },
  };
  const turn = { begin: () => false, take: (start: () => void) => void turns.push(start) };
  const input = new ClientInput({ declared }, counting, turn, {
    isJoining,
    onDetected: (format) => detected.push(formatAudioFormat(format)),
    onOpaque: () => {},
    onUncovered: () => {},
    onMismatch: (observed) => faults.push(observed),
    onFault: (fault) => faults.push(fault),
  });
  /** Lets codecs open, and takes turns until no work is left; returns the packets of each turn. */
  const settle = async () => {
    const perTurn: number[] = [];
    for (let idle = 0; idle < 20; idle += 1) {
      await turnOfLoop();
      for (const start of turns.splice(0)) {
        const before = encoded.packets;
        start();
        perTurn.push(encoded.packets - before);
        idle = 0;
      }
    }
    return perTurn;
  };
  return { input, encoded, detected, faults, settle };
}

test('minutes of sound that a client of unknown format sends in the lobby are encoded for nobody', async () => {
  const { input, encoded, detected, faults, settle } = openInput('auto', () => false);
  const startMs = performance.now();
  for (const [i, message] of longMessages(16).entries()) input.receive(message, startMs + i);
  await vi.waitFor(() => expect(detected).toEqual(['pcmu']), { timeout: 10_000 });
  await settle();
  expect([encoded.packets, faults]).toEqual([0, []]);
  input.close();
});

test('minutes of sound that a client of unknown format sends into a room are not encoded at once, and no more than 12 s of them are', async () => {
  const { input, encoded, detected, settle } = openInput('auto');
  input.attach(() => {});
  const startMs = performance.now();
  const messages = longMessages(16);
  for (const [i, message] of messages.entries()) input.receive(message, startMs + i / 1000);
  await turnOfLoop();
  expect([detected, encoded.packets]).toEqual([['pcmu'], 0]);
  const perTurn = await settle();
  expect(encoded.packets).toBeGreaterThan(0);
  expect(encoded.packets).toBeLessThanOrEqual(MAX_PACKETS);
  // Pieces of 10 packets, for a millisecond.
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(100);
  // Another input of the same client does not begin with another 12 s.
  input.reopen({ declared: 'auto' });
  for (const [i, message] of messages.entries()) input.receive(message, startMs + 1 + i / 1000);
  await settle();
  expect(encoded.packets).toBeLessThanOrEqual(MAX_PACKETS);
  input.close();
});

test('a message of many seconds of declared samples is encoded in pieces, and what follows it comes after it', async () => {
  const { input, encoded, faults, settle } = openInput({
    codec: 'pcm_u8',
    rateHz: 8000,
    channels: 1,
  });
  await settle();
  const heardAtMs: number[] = [];
  input.attach((_packet, _samples, _level, atMs) => void heardAtMs.push(atMs));
  const startMs = performance.now();
  const sound = Buffer.from(
    Float64Array.from({ length: 10 * 8000 + 3 }, (_, i) => 128 + 100 * Math.sin(i / 2)),
  );
  input.receive(sound.subarray(0, 16_000), startMs);
  expect(encoded.packets).toBe(100);
  input.receive(sound.subarray(16_000), startMs + 10);
  input.receive(sound.subarray(0, 157), startMs + 20);
  expect(encoded.packets).toBe(100);
  const perTurn = await settle();
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(100);
  // The three samples at the end and the next message are one packet.
  expect(heardAtMs.filter((atMs) => atMs === startMs + 10)).toHaveLength(400);
  expect(heardAtMs.at(-1)).toBe(startMs + 20);
  expect([encoded.packets, heardAtMs.length, faults]).toEqual([501, 501, []]);
  input.close();
});

test('decoded sound is encoded in turns of its client, 100 ms in each', async () => {
  const { input, encoded, faults, settle } = openInput({ codec: 'flac' });
  await settle();
  input.attach(() => {});
  // Ten frames of 20 ms a message.
  for (let message = 0; message < 5; message += 1) {
    const frames = Array.from({ length: 10 }, (_, i) => flacFrame(message * 10 + i, 960, 48_000));
    input.receive(Buffer.concat(frames), performance.now());
  }
  const perTurn: number[] = [];
  await expect
    .poll(async () => {
      perTurn.push(...(await settle()));
      return encoded.packets;
    })
    // The decoder may be a frame late.
    .toBeGreaterThanOrEqual(49);
  expect(perTurn.reduce((sum, packets) => sum + packets, 0)).toBe(encoded.packets);
  expect(Math.max(...perTurn)).toBeLessThanOrEqual(6);
  expect(faults).toEqual([]);
  input.close();
});

test('minutes of sound behind a request for a format that takes fewer bytes: no more than 12 s are encoded', async () => {
  const { input, encoded, faults, settle } = openInput({ codec: 'flac' });
  await settle();
  input.attach(() => {});
  const startMs = performance.now();
  input.mark();
  for (const [i, message] of longMessages(27).entries()) {
    input.receive(message, startMs + i / 1000);
  }
  input.reopen({ declared: PCMU });
  input.passMark();
  await settle();
  input.flush();
  expect(encoded.packets).toBeGreaterThan(0);
  expect(encoded.packets).toBeLessThanOrEqual(MAX_PACKETS);
  expect(faults).toEqual([]);
  input.close();
});

test('9 s of sound of an unknown format that a stall held up are all heard, in order', async () => {
  const { input, detected, faults, settle } = openInput('auto');
  const heardAtMs: number[] = [];
  input.attach((_packet, _samples, _level, atMs) => void heardAtMs.push(atMs));
  const startMs = performance.now();
  const messages = pcmTone(440, 0.5, 9000);
  for (const [i, message] of messages.entries()) {
    input.receive(message, startMs + (i < 400 ? 7990 + i / 100 : i * 20));
  }
  await settle();
  expect(detected).toHaveLength(1);
  expect(heardAtMs).toHaveLength(messages.length);
  expect(heardAtMs).toEqual(heardAtMs.toSorted((one, other) => one - other));
  expect(faults).toEqual([]);
  input.close();
});

test('a client whose turns do not come is heard 3 s late at most, in order', async () => {
  const { input, faults, settle } = openInput('auto');
  const heardAtMs: number[] = [];
  input.attach((_packet, _samples, _level, atMs) => void heardAtMs.push(atMs));
  const startMs = performance.now();
  const messages = pcmTone(440, 0.5, 6000);
  for (const [i, message] of messages.entries()) {
    input.receive(message, startMs + i * 20);
    await turnOfLoop();
  }
  expect(input.format?.codec).toBe('pcm_s16le');
  expect(heardAtMs.length).toBeGreaterThanOrEqual(3 * 50 - 1);
  expect(heardAtMs.length).toBeLessThanOrEqual(3 * 50 + 1);
  await settle();
  expect(heardAtMs.map((atMs) => Math.round((atMs - startMs) / 20))).toEqual([...messages.keys()]);
  expect(faults).toEqual([]);
  input.close();
});

test('what a client sends while its first messages wait for their turn follows them, and a flush hands on all', async () => {
  const { input, faults } = openInput('auto');
  const heardAtMs: number[] = [];
  input.attach((_packet, _samples, _level, atMs) => void heardAtMs.push(atMs));
  const startMs = performance.now();
  const messages = pcmTone(440, 0.5, 1000);
  for (const [i, message] of messages.entries()) {
    input.receive(message, startMs + i * 20);
    await turnOfLoop();
  }
  expect([input.format?.codec, heardAtMs.length]).toEqual(['pcm_s16le', 0]);
  input.flush();
  expect(heardAtMs.map((atMs) => Math.round((atMs - startMs) / 20))).toEqual([...messages.keys()]);
  expect(faults).toEqual([]);
  input.close();
});
