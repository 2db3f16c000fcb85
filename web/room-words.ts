import type { ClientState, Transport } from 'partyline-client';

type InRoom = Extract<ClientState, { name: 'in_room' }>;

/** Status of the room in which everybody hears itself. */
export const ECHO_WORDS =
  'Say something: you hear yourself a second later. Nobody else does. Headphones keep it from going round.';

const WAY_WORDS: Record<Transport, string> = {
  webrtc: 'Sound goes by WebRTC.',
  websocket: 'Sound goes over the WebSocket, which passes where WebRTC does not.',
};
/** The way that sound goes; empty while it goes none. */
export const wayWords = ({ transport, isInterrupted }: InRoom) =>
  isInterrupted ? '' : WAY_WORDS[transport];

/** Status of a room. */
export function inRoomWords({ peers, trouble }: InRoom): string {
  if (trouble !== undefined) return trouble;
  if (peers.size === 0) return 'You are in the room, alone.';
  return `You are in the room with ${peers.size === 1 ? 'one other' : `${peers.size} others`}.`;
}
