import type { ClientState, Transport } from 'partyline-client';

type InRoom = Extract<ClientState, { name: 'in_room' }>;

/** Status of the room in which everybody hears itself. */
const ECHO_WORDS = 'Speak: only you hear yourself, a second later. Headphones prevent feedback.';

/** Progress of a join while the browser asks for the microphone. */
export const MICROPHONE_WAIT = 'Waiting for the microphone…';

const WAY_WORDS: Record<Transport, string> = {
  webrtc: 'Audio uses WebRTC.',
  websocket: 'Audio uses the WebSocket, which works where WebRTC is blocked.',
};
/** Returns the description of the audio transport; empty while there is none. */
export const wayWords = ({ transport, isInterrupted }: InRoom) =>
  isInterrupted ? '' : WAY_WORDS[transport];

/** Returns the status of a room. @param isTrial true in the room in which everybody hears itself */
export function inRoomWords({ peers, trouble }: InRoom, isTrial: boolean): string {
  if (trouble !== undefined) return trouble;
  if (isTrial) return ECHO_WORDS;
  if (peers.size === 0) return 'You are in the room, alone.';
  return `You are in the room with ${peers.size === 1 ? 'one other' : `${peers.size} others`}.`;
}

/** Returns the announcement of the peers that came and left; empty if there are none. */
export function comingsOf(before: ReadonlySet<string>, now: ReadonlySet<string>): string {
  const came = [...now].filter((name) => !before.has(name)).map((name) => `${name} joined.`);
  const left = [...before].filter((name) => !now.has(name)).map((name) => `${name} left.`);
  return [...came, ...left].join(' ');
}
