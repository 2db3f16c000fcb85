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
    // After a refusal the gateway is to be told again.
    if (settings.tellingMute === 0) settings.toldMuted = settings.answeredMuted;
  }
}

/**
 * Takes what the gateway says unasked: an operator has muted this peer, or has ended that. It does not end a mute of the user's own.
 * @returns whether it is news, which the audio is to be told
 */
export function hearMute(settings: SoundSettings, isMuted: boolean): boolean {
  // A request that is on its way reaches the gateway after it said this, and holds unless it is refused.
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
