import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';

/** Prefix of ids of WHIP and WHEP sessions in Redis, which those of WebSockets do not have. */
export const WHIP_PREFIX = 'whip:';

/** Place of a peer, and its session. */
const StoredPlaceSchema = Type.Object({
  sessionId: Type.String(),
  room: Type.String(),
  kind: Type.Enum(['websocket', 'webrtc']),
});
export type StoredPlace = Static<typeof StoredPlaceSchema>;
const storedPlaces = Compile(StoredPlaceSchema);

/** Parses a place as stored in Redis; undefined if there is none, or if it has another shape. */
export function parsePlace(text: string | null): StoredPlace | undefined {
  const place: unknown = text ? JSON.parse(text) : undefined;
  return storedPlaces.Check(place) ? place : undefined;
}
