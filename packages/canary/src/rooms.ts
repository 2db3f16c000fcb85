import { randomBytes } from 'node:crypto';

/** Rooms of one canary. A gateway of several processes has each room in one of them, by its name: several rooms reach more of them. */
const ROOMS = 8;
/** Usage is kept by room and minute. */
const TURN_MS = 60_000;

const NAME = `canary-${randomBytes(6).toString('hex')}`;

/**
 * Returns the room of a round, which no other canary uses. The rooms take turns, a minute each. They stay the same, because
 * the gateway keeps the usage of each room for months.
 */
export const roomAt = (wallMs: number): string => `${NAME}-${Math.floor(wallMs / TURN_MS) % ROOMS}`;
