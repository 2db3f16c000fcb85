import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';

/** Prefix of ids of WHIP and WHEP sessions in Redis, which those of WebSockets do not have. */
export const WHIP_PREFIX = 'whip:';

/** Location of a peer, and its session. */
const LastLocationSchema = Type.Object({
  sessionId: Type.String(),
  room: Type.String(),
  kind: Type.Enum(['websocket', 'webrtc']),
});
export type LastLocation = Static<typeof LastLocationSchema>;
const lastLocations = Compile(LastLocationSchema);

/** Reads a location as Redis stores it; undefined if there is none. */
export function parseLocation(text: string | null): LastLocation | undefined {
  const place: unknown = text ? JSON.parse(text) : undefined;
  return lastLocations.Check(place) ? place : undefined;
}
