import type { Room } from '../../src/rooms/room.ts';
import type { PresenceParts } from '../../src/session/presence.ts';

const nothing = () => {};

/** Parts of a `Presence` whose client comes into one room, whatever its name, and is refused nothing. */
export const presencePartsOf = (room: Room): PresenceParts =>
  ({
    rooms: { acquire: async () => ({ room, release: nothing }) },
    places: { get: nothing, take: nothing },
    checkJoin: async () => {},
    onPlace: nothing,
    onSettled: nothing,
    giveUpElsewhere: nothing,
    requestLimits: { turns: { run: async (_id: string, work: () => unknown) => work() } },
    credentials: {},
    timings: { changesWithinMs: 10_000 },
  }) as unknown as PresenceParts;
