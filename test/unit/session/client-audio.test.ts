import { describe, expect, test } from 'vitest';
import { loadCodecs } from '../../../src/audio/codecs.ts';
import { ClientAudio } from '../../../src/session/client-audio.ts';

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

async function openAudio(): Promise<ClientAudio> {
  const codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
  const preferences = {
    in: 'auto',
    out: undefined,
    delivery: 'mix',
    unknownOut: undefined,
  } as const;
  const turn = { begin: () => true, take: (start: () => void) => start() };
  return new ClientAudio(preferences, undefined, codecs, turn, {
    isJoining: false,
    notify: () => {},
    fail: (fault) => {
      throw fault;
    },
    sendRelayed: () => {},
    settingsChanged: async () => {},
  });
}
