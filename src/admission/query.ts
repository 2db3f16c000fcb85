import type { Account } from '../accounts/accounts.ts';
import { parseAudioFormat, parseDeclaredFormat } from '../audio/format.ts';
import { PartylineError } from '../protocol/errors.ts';
import { type AudioPreferences, parseAudioOut, withPin } from '../session/client-audio.ts';
import { checkName } from '../protocol/names.ts';

/** Parsed query of `/ws`. */
export type Query = {
  /** Not validated yet: a room that `join` would refuse is refused in the same way, and leaves the client in the lobby. */
  room: string;
  peer: string;
  /** An API key or a token; neither if the `Authorization` header has the key. */
  apiKey: string | undefined;
  token: string | undefined;
  audio: QueriedAudio;
  stats: boolean;
  /** Credentials from the `welcome` of the connection that was lost. */
  resume: { sessionId: string; resumeToken: string } | undefined;
};
/** The part of a query that concerns a session for as long as it lasts. */
export type SessionQuery = Pick<Query, 'peer' | 'audio' | 'stats'>;
type QueriedAudio = Pick<AudioPreferences, 'in' | 'out' | 'delivery'>;

/** @throws {PartylineError} `bad_request`, `unsupported_audio` */
export function readQuery(url: string): Query {
  const parameters = new URL(url, 'http://localhost').searchParams;
  const read = (name: string): string | undefined => {
    const values = parameters.getAll(name);
    if (values.length < 2) return values[0];
    throw new PartylineError('bad_request', `"${name}" is given more than once.`);
  };
  const required = (name: string): string => {
    const value = read(name);
    if (!value) throw new PartylineError('bad_request', `"${name}" is missing.`);
    return value;
  };
  const room = required('room');
  const peer = checkName(required('peer'), 'peer', 'bad_request');
  const audio = readAudio(read('audio'), read('audio_out'), read('delivery'));
  const [apiKey, token] = [read('api_key'), read('token')];
  const [sessionId, resumeToken] = [read('session_id'), read('resume_token')];
  const resume = sessionId && resumeToken ? { sessionId, resumeToken } : undefined;
  return { room, peer, apiKey, token, audio, stats: readStats(read('stats')), resume };
}

/** Returns the preferences of the client, completed by those that the operator has set for its account. */
export function preferencesOf(audio: QueriedAudio, account: Account): AudioPreferences {
  const { default_audio: defaultAudio, pinned_audio: pinnedAudio } = account;
  const pinned = pinnedAudio === undefined ? undefined : parseDeclaredFormat(pinnedAudio);
  return {
    ...audio,
    in: withPin(audio.in, pinned),
    pinned,
    unknownOut: defaultAudio === undefined ? undefined : parseAudioFormat(defaultAudio),
  };
}

function readStats(stats = 'false'): boolean {
  if (stats === 'true' || stats === 'false') return stats === 'true';
  throw new PartylineError('bad_request', '"stats" must be "true" or "false".');
}

function readAudio(
  audio = 'auto',
  audioOut: string | undefined = 'auto',
  delivery = 'mix',
): QueriedAudio {
  if (delivery !== 'mix' && delivery !== 'forward') {
    throw new PartylineError('bad_request', '"delivery" must be "mix" or "forward".');
  }
  return { in: parseDeclaredFormat(audio), out: parseAudioOut(audioOut), delivery };
}
