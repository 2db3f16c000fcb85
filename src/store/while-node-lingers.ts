import { setTimeout as wait } from 'node:timers/promises';

const POLL_MS = 200;
/** A heartbeat may be on its way. */
const MARGIN_MS = 1000;

/**
 * Repeats a check until it finds no obstacle, for as long as a node that was killed a moment ago seems to live.
 * @param findObstacle returns the message for the operator about a living node; undefined if there is none
 * @param deadAfterMs silence after which a node is dead
 * @throws {Error} with that message if the node is still there at the end
 */
export async function whileNodeLingers(
  findObstacle: () => Promise<string | undefined>,
  deadAfterMs: number,
): Promise<void> {
  const deadlineMs = performance.now() + deadAfterMs + MARGIN_MS;
  for (;;) {
    const obstacle = await findObstacle();
    if (obstacle === undefined) return;
    if (performance.now() > deadlineMs) throw new Error(obstacle);
    await wait(POLL_MS);
  }
}
