import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioSettings } from '../../../src/session/audio-settings.ts';
import type { WebSocketPeer } from '../../../src/rooms/websocket-peer.ts';
import { type AudioPreferences, ClientAudio } from '../../../src/session/client-audio.ts';
import { AT_ONCE, type Turn } from '../../../src/audio/ingest/held-audio.ts';
import { seededRandom } from '../../support/random.ts';
import { pcmTone } from '../../support/sound.ts';

/** Peer in a room in which nobody hears it. */
const ROOM = {
  sink: () => {},
  audioStats: { droppedMs: 0, concealedMs: 0 },
  lastPackets: { packets: [], atMs: -Infinity },
  subscribe: () => {},
  setMuted: () => {},
  relay: () => {},
};

test.each([
  [{ audio: 'auto' }, 'sound'],
  [{ audio: 'auto', audio_out: 'auto', delivery: 'mix' as const }, 'sound'],
  [{ audio: 'pcmu' }, undefined],
  [{ audio_out: 'opus' }, undefined],
  [{ delivery: 'forward' as const }, undefined],
])('configure %j after known sound: the client has heard %s first', async (changes, firstHeard) => {
  const audio = await openAudio();
  audio.admitSound();
  expect(audio.settings.firstHeard).toBe('sound');
  audio.configure({ type: 'configure', ...changes });
  expect(audio.settings.firstHeard).toBe(firstHeard);
  audio.close();
});

describe('what a client without format settings has heard first', () => {
  test('is stored once, with the first frame of known sound', async () => {
    const stored: AudioSettings[] = [];
    const audio = await openAudio({ stored });
    for (let i = 0; i < 3; i += 1) audio.admitSound();
    expect(stored).toMatchObject([{ firstHeard: 'sound' }]);
    audio.close();
  });

  test('is stored in the turn of the client, and no more if it has closed by then', async () => {
    const stored: AudioSettings[] = [];
    const starts: (() => void)[] = [];
    const turn = { begin: () => false, take: (start: () => void) => starts.push(start) };
    const [staying, closing] = [
      await openAudio({ stored, turn }),
      await openAudio({ stored, turn }),
    ];
    staying.admitSound();
    closing.admitSound();
    closing.close();
    expect(stored).toEqual([]);
    for (const start of starts) start();
    expect(stored).toMatchObject([{ firstHeard: 'sound' }]);
    staying.close();
  });

  test('is stored no more when the client leaves the room', async () => {
    const stored: AudioSettings[] = [];
    const audio = await openAudio({ stored });
    audio.attach(undefined);
    expect(stored).toEqual([]);
    audio.admitSound();
    audio.attach(undefined);
    expect(stored.map(({ firstHeard }) => firstHeard)).toEqual(['sound', undefined]);
    audio.close();
  });

  test.each([
    { in: { codec: 'opus' } },
    { out: { codec: 'opus' } },
    { delivery: 'forward' },
    { unknownOut: { codec: 'pcmu', rateHz: 8000, channels: 1 } },
  ] satisfies Partial<AudioPreferences>[])(
    'is not stored if it decides nothing: %o',
    async (set) => {
      const stored: AudioSettings[] = [];
      const audio = await openAudio({ stored, set });
      audio.admitSound();
      audio.attach(undefined);
      expect(stored).toEqual([]);
      audio.close();
    },
  );

  test('holds after a resume, and until the client leaves the room', async () => {
    const before = await openAudio();
    before.admitSound();
    const stored: AudioSettings[] = [];
    const audio = await openAudio({ stored, settings: before.settings });
    before.close();
    expect(audio.takesRelayed).toBe(false);
    audio.admitSound();
    expect(stored).toEqual([]);
    audio.attach(undefined);
    expect(stored.map(({ firstHeard }) => firstHeard)).toEqual([undefined]);
    expect(audio.takesRelayed).toBe(true);
    audio.close();
  });
});

test.each([
  [{ volume: { bob: 0.5 } }, false],
  [{ audio: 'auto', audio_out: 'auto', delivery: 'mix' as const, mute: false }, false],
  [{ mute: true }, true],
  [{ audio: 'pcmu' }, true],
  [{ audio_out: 'pcmu' }, true],
])(
  'configure %j: what waits for its turn is handed on at once: %s',
  async (changes, isHandedOn) => {
    const turn = { begin: () => false, take: () => {} };
    const audio = await openAudio({ turn });
    let packets = 0;
    audio.attach({ ...ROOM, sink: () => (packets += 1) } as unknown as WebSocketPeer);
    const startMs = performance.now();
    for (const [i, message] of pcmTone(440, 0.5, 1000).entries()) {
      audio.input.receive(message, startMs + i * 20);
      await turnOfLoop();
    }
    expect([audio.input.format?.codec, packets]).toEqual(['pcm_s16le', 0]);
    audio.configure({ type: 'configure', ...changes });
    expect(packets).toBe(isHandedOn ? 50 : 0);
    audio.close();
  },
);

test('configure with audio=auto: the format that is pinned for the account stays', async () => {
  const pinned = { codec: 'pcmu', rateHz: 8000, channels: 1 } as const;
  const audio = await openAudio({ set: { in: pinned, pinned } });
  audio.configure({ type: 'configure', audio: 'opus' });
  expect(audio.describe().in).toBe('opus');
  audio.configure({ type: 'configure', audio: 'auto' });
  expect(audio.describe()).toMatchObject({ in: 'pcmu', out: 'pcmu' });
  expect(audio.takesRelayed).toBe(false);
  audio.close();
});

test('the client is told again that its format is unknown, after one was detected', async () => {
  const told: string[] = [];
  const audio = await openAudio({ told });
  audio.attach(ROOM as unknown as WebSocketPeer);
  const random = seededRandom(1);
  const noise = () =>
    Array.from({ length: 150 }, () =>
      Buffer.from(Array.from({ length: 150 }, () => Math.floor(random() * 256))),
    );
  const stream = [...noise(), ...pcmTone(440, 0.5, 3000), ...noise()];
  const startMs = performance.now();
  for (const [i, message] of stream.entries()) {
    audio.input.receive(message, startMs + i * 20);
    await turnOfLoop();
  }
  expect(told).toEqual(['audio_unknown', 'audio_detected', 'audio_unknown']);
  audio.close();
});

describe('volumes of 1000 names', () => {
  const volumesOf = (names: string[]) => Object.fromEntries(names.map((name) => [name, 0.5]));
  const namesOf = (length: number) =>
    Array.from({ length: 1000 }, (_, i) => `${i}`.padEnd(length, 'x'));

  test('of 128 characters are kept, also if they come in two messages', async () => {
    const audio = await openAudio();
    const names = namesOf(128);
    audio.configure({ type: 'configure', volume: volumesOf(names.slice(0, 500)) });
    const rest = { type: 'configure', volume: volumesOf(names.slice(500)) } as const;
    expect(audio.configure(rest)).toMatchObject({ volume: volumesOf(names) });
    audio.close();
  });

  test('of more characters are refused, and those before stay', async () => {
    const audio = await openAudio();
    const names = namesOf(129);
    const kept = volumesOf(names.slice(0, 500));
    audio.configure({ type: 'configure', volume: kept });
    const rest = { type: 'configure', volume: volumesOf(names.slice(500)) } as const;
    expect(() => audio.configure(rest)).toThrow('128000');
    expect(audio.settings.volume).toEqual(kept);
    audio.close();
  });
});

type Options = {
  /** Preferences besides the defaults. */
  set?: Partial<AudioPreferences>;
  settings?: AudioSettings;
  turn?: Turn;
  /** Receives what is stored. */
  stored?: AudioSettings[];
  /** Receives the types of messages to the client. */
  told?: string[];
};

async function openAudio({ set, settings, turn = AT_ONCE, stored = [], told = [] }: Options = {}) {
  const codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
  const nothing: AudioPreferences = {
    in: 'auto',
    pinned: undefined,
    out: undefined,
    delivery: 'mix',
    unknownOut: undefined,
  };
  const audio = new ClientAudio({ ...nothing, ...set }, settings, codecs, turn, {
    isJoining: false,
    notify: ({ type }) => told.push(type),
    fail: (fault) => {
      throw fault;
    },
    sendRelayed: () => {},
    streamOver: () => {},
    settingsChanged: async () => {
      stored.push(audio.settings);
    },
  });
  return audio;
}
