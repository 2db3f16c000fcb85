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

/** Parses a location as stored in Redis; undefined if there is none, or if it has another shape. */
export function parseLocation(text: string | null): LastLocation | undefined {
  const place: unknown = text ? JSON.parse(text) : undefined;
  return lastLocations.Check(place) ? place : undefined;
}
