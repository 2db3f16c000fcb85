import { expect, test } from 'vitest';
import { loadCodecs } from '../../../src/audio/codecs.ts';
import { ClientAudio } from '../../../src/session/client-audio.ts';

test.each([
  [{ audio: 'auto' }, 'sound'],
  [{ audio: 'auto', audio_out: 'auto', delivery: 'mix' as const }, 'sound'],
  [{ audio: 'pcmu' }, undefined],
  [{ audio_out: 'opus' }, undefined],
  [{ delivery: 'forward' as const }, undefined],
])('configure %j after known sound: the client has heard %s first', async (changes, firstHeard) => {
  const codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
  const preferences = {
    in: 'auto',
    out: undefined,
    delivery: 'mix',
    unknownOut: undefined,
  } as const;
  const turn = { begin: () => true, take: (start: () => void) => start() };
  const audio = new ClientAudio(preferences, undefined, codecs, turn, {
    isJoining: false,
    notify: () => {},
    fail: (fault) => {
      throw fault;
    },
    sendRelayed: () => {},
    settingsChanged: async () => {},
  });
  audio.admitSound();
  expect(audio.settings.firstHeard).toBe('sound');
  audio.configure({ type: 'configure', ...changes });
  expect(audio.settings.firstHeard).toBe(firstHeard);
  audio.close();
});
