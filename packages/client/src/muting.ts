import type { SendRequest } from './connection.ts';
import type { SoundSettings } from './room-audio.ts';

/**
 * Tells the gateway by `configure` whether this peer is muted.
 * @param more settings that go with it
 * @throws {RequestError}
 */
export async function tellMute(
  request: SendRequest,
  settings: SoundSettings,
  more: { volume?: Record<string, number> } = {},
): Promise<void> {
  const { muted } = settings;
  if (settings.tellingMute === 0) settings.answeredMuted = settings.toldMuted;
  settings.toldMuted = muted;
  settings.tellingMute += 1;
  try {
    await request({ type: 'configure', mute: muted, ...more });
    settings.answeredMuted = muted;
  } finally {
    settings.tellingMute -= 1;
    // After a refusal the gateway must be told again.
    if (settings.tellingMute === 0) settings.toldMuted = settings.answeredMuted;
  }
}

/**
 * Applies a mute that the gateway sent unasked: an operator has muted this peer, or has unmuted it. It does
 * not end a mute of the user's own.
 * @returns true if the mute has changed, so that the audio must be told
 */
export function hearMute(settings: SoundSettings, isMuted: boolean): boolean {
  // A pending request reaches the gateway after this message, and takes precedence unless it is
  // refused.
  if (settings.tellingMute > 0) {
    settings.answeredMuted = isMuted;
    return false;
  }
  if (isMuted === settings.toldMuted) return false;
  settings.toldMuted = isMuted;
  if (isMuted !== settings.muted && (isMuted || settings.isMutedByGateway)) {
    settings.muted = isMuted;
    settings.isMutedByGateway = isMuted;
  }
  return true;
}
