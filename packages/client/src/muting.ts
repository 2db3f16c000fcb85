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
  // Nothing is pending: what was told last is what the gateway has.
  if (settings.pendingMutes === 0) settings.answeredMuted = settings.toldMuted;
  settings.toldMuted = muted;
  settings.pendingMutes += 1;
  try {
    await request({ type: 'configure', mute: muted, ...more });
    settings.answeredMuted = muted;
  } finally {
    settings.pendingMutes -= 1;
    // After a refusal `toldMuted` is again what the gateway has, so that the caller sees the
    // difference and tells it again.
    if (settings.pendingMutes === 0) settings.toldMuted = settings.answeredMuted;
  }
}

/**
 * Applies a mute that the gateway sent unasked: an operator has muted this peer, or has unmuted it. An operator's unmute does not end
 * a mute of the user's own.
 * @returns true if the gateway has another mute than was known: the audio must apply the settings, which may differ from it
 */
export function hearMute(settings: SoundSettings, isMuted: boolean): boolean {
  // The gateway sent this before it took the pending request, which takes precedence unless it is
  // refused.
  if (settings.pendingMutes > 0) {
    settings.answeredMuted = isMuted;
    return false;
  }
  if (isMuted === settings.toldMuted) return false;
  settings.toldMuted = isMuted;
  const isOwnMute = settings.muted && !settings.isMutedByGateway;
  if (!isOwnMute && isMuted !== settings.muted) {
    settings.muted = isMuted;
    settings.isMutedByGateway = isMuted;
  }
  return true;
}
