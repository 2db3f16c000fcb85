import type { ClientState, CloseReason } from 'partyline-client';
import { CLOSE_CODES } from '../src/protocol/close-codes.ts';
import type { Guest } from './invite.ts';

type Reconnecting = Extract<ClientState, { name: 'reconnecting' }>;

/** Sentences that tell the user of the page what went wrong. */

const END_WORDS: Record<string, string> = {
  unauthorized: 'The gateway does not know this API key. Check that all of it was pasted.',
  replaced:
    'Another connection uses your name, so this one was closed. To be in the room here, too, join under another name.',
  forbidden: 'The gateway does not let you in.',
};

/** Returns true if there is no token, because the API key is not valid. A close with 4401 is about a key or token that was valid. */
export const isKeyUnknown = ({ code, closeCode }: CloseReason): boolean =>
  code === 'unauthorized' && closeCode !== CLOSE_CODES.unauthorized;

/** Returns why the connection of a user with a key ended permanently. */
export function endWords(reason: CloseReason): string {
  const { code, message } = reason;
  if (code === 'unauthorized' && !isKeyUnknown(reason)) {
    // A key that was revoked, or whose account is gone, leads to no further token.
    return /API key|account/.test(message) ? message : `${message} Press Join to enter again.`;
  }
  const words = END_WORDS[code];
  if (code === 'forbidden') return `${words} ${message}`;
  return words ?? message;
}

/**
 * Returns why the gateway refuses the token of a guest. A token ends a day after it was given out at the latest, which is before the end
 * of some invitations.
 * @param wallMs Unix time, ms
 */
export function guestEndWords(
  { expiresAtMs, invitedUntilMs }: Pick<Guest, 'expiresAtMs' | 'invitedUntilMs'>,
  wallMs: number,
): string {
  if (wallMs < expiresAtMs) return 'The invitation has expired or was withdrawn.';
  return wallMs < invitedUntilMs
    ? 'Your access by this invitation has expired. Press Join to enter again.'
    : 'The invitation has expired. Ask for a new one.';
}

/** Returns true if the gateway does not accept an invitation any more. @param error of the exchange for a token */
export const isInvitationOver = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'not_found';

/** Returns why there is no connection now, and when the next attempt follows. */
export function retryWords({ reason, hasAudio }: Reconnecting, delayMs: number): string {
  const seconds = Math.round(delayMs / 1000);
  const when = seconds > 1 ? `in ${seconds} s` : 'now';
  const sound = hasAudio ? ' The audio continues meanwhile.' : '';
  return `${reason.message} Trying again ${when}.${sound}`;
}

const MICROPHONE_WORDS: Record<string, string> = {
  NotAllowedError: 'The browser did not let this page use the microphone.',
  NotFoundError: 'No microphone was found.',
  NotReadableError: 'The microphone cannot be used: another program may hold it.',
  OverconstrainedError: 'This microphone is no longer available.',
  AbortError: 'The browser could not start the microphone.',
  InsecureContextError:
    'The browser allows the microphone only on pages over https, or on localhost.',
};

/** Returns why a microphone cannot be used. @param isOtherOpen true if the one before is still used */
export function microphoneWords(error: unknown, isOtherOpen: boolean): string {
  const words =
    MICROPHONE_WORDS[nameOf(error)] ?? `The microphone cannot be used: ${errorWords(error)}`;
  return isOtherOpen
    ? `${words} The previous microphone stays in use.`
    : `${words} You can listen, but nobody hears you.`;
}

const SPEAKER_WORDS: Record<string, string> = {
  NotAllowedError: 'The browser did not let this page use these speakers.',
  NotFoundError: 'These speakers are no longer available.',
  AbortError: 'The browser could not start these speakers.',
};

/** Returns why speakers cannot be used. */
export function speakerWords(error: unknown): string {
  const words =
    SPEAKER_WORDS[nameOf(error)] ?? `These speakers cannot be used: ${errorWords(error)}`;
  return `${words} The previous speakers stay in use.`;
}

/** An `OverconstrainedError` is not an `Error` in every browser. */
const nameOf = (error: unknown) =>
  typeof error === 'object' && error !== null && 'name' in error ? String(error.name) : '';

/** Returns the sentence for any other fault. */
export function errorWords(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'UnsupportedError') return 'This browser does not support WebRTC audio.';
  return error.message;
}
