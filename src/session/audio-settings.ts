import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import {
  answerTo,
  type DeclaredFormat,
  type Delivery,
  formatAudioFormat,
  type InputFormat,
  isSamples,
  type OutputFormat,
  parseAudioFormat,
  parseDeclaredFormat,
  parseOutputFormat,
} from '../audio/format.ts';
import type { FirstHeard } from './relay-intake.ts';

/** Audio settings of a client, from its query or `configure`. They hold until its session ends. */
export type AudioSettings = {
  in: DeclaredFormat;
  /** Detected format of a client that declared none or sends WAVE; undefined while unknown. */
  detected: InputFormat | undefined;
  /** Format that the client hears; undefined: the same as it sends. */
  out: OutputFormat | undefined;
  delivery: Delivery;
  /** Factor by which the audio of a peer is multiplied, by peer. */
  volume: Record<string, number>;
  isMuted: boolean;
  /** Kind of audio that a client without any format settings was sent first, mixed sound or relayed messages: from then on it is sent only that. */
  firstHeard?: FirstHeard;
};

/** Maximum length of one client's settings in Redis, bytes. */
export const MAX_SETTINGS_BYTES = 16 * 1024;

const SettingsSchema = Type.Object({
  in: Type.String(),
  detected: Type.Optional(Type.String()),
  inside: Type.Optional(Type.String()),
  out: Type.Optional(Type.String()),
  delivery: Type.Enum(['mix', 'forward']),
  mute: Type.Boolean(),
  volume: Type.Record(Type.String(), Type.Number()),
  first_heard: Type.Optional(Type.Enum(['sound', 'relayed'])),
});
const validator = Compile(SettingsSchema);

/**
 * Writes settings as text of at most `maxBytes`. If not all volumes fit, those that were set first are left out;
 * everything else always fits.
 */
export function serializeSettings(
  { in: declared, detected, out, delivery, volume, isMuted, firstHeard }: AudioSettings,
  maxBytes = MAX_SETTINGS_BYTES,
): string {
  const rest = {
    in: formatAudioFormat(declared),
    ...(detected && { detected: formatAudioFormat(detected), ...wavSamplesOf(detected) }),
    ...(out && { out: formatAudioFormat(out) }),
    delivery,
    mute: isMuted,
    ...(firstHeard && { first_heard: firstHeard }),
  };
  const withVolume = (kept: Record<string, number>) =>
    JSON.stringify({ ...rest, volume: kept } satisfies Static<typeof SettingsSchema>);
  const whole = withVolume(volume);
  if (Buffer.byteLength(whole) <= maxBytes) return whole;
  let leftBytes = maxBytes - Buffer.byteLength(withVolume({}));
  const kept: [string, number][] = [];
  for (const [peer, gain] of Object.entries(volume).toReversed()) {
    leftBytes -= Buffer.byteLength(`${JSON.stringify(peer)}:${gain},`);
    if (leftBytes < 0) break;
    kept.push([peer, gain]);
  }
  return withVolume(Object.fromEntries(kept.toReversed()));
}

/** Returns the format of the samples in a WAVE file, if a client can be sent it. */
function wavSamplesOf(detected: InputFormat): { inside?: string } {
  const inside = detected.codec === 'wav' ? answerTo(detected) : undefined;
  return inside ? { inside: formatAudioFormat(inside) } : {};
}

/**
 * Reads what {@link serializeSettings} wrote.
 * @throws {Error} if the text is malformed
 */
export function parseSettings(text: string): AudioSettings {
  const value: unknown = JSON.parse(text);
  if (!validator.Check(value)) throw new Error('not the settings of a client');
  return {
    in: parseDeclaredFormat(value.in),
    detected: parseDetected(value),
    out: value.out === undefined ? undefined : parseOutputFormat(value.out),
    delivery: value.delivery,
    volume: value.volume,
    isMuted: value.mute,
    ...(value.first_heard && { firstHeard: value.first_heard }),
  };
}

function parseDetected({
  detected,
  inside,
}: Static<typeof SettingsSchema>): InputFormat | undefined {
  const format = detected === undefined ? 'auto' : parseDeclaredFormat(detected);
  if (format === 'auto') return undefined;
  const samples = inside === undefined ? undefined : parseAudioFormat(inside);
  return format.codec === 'wav' && samples && isSamples(samples)
    ? { codec: 'wav', inside: samples }
    : format;
}
