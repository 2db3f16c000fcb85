import { setTimeout as wait } from 'node:timers/promises';

const POLL_MS = 200;
/** A heartbeat may be on its way. */
const MARGIN_MS = 1000;

/**
 * Repeats a check until it finds no obstacle, for as long as a node that was killed a moment ago seems to live.
 * @param findObstacle returns the message for the operator about a living node; undefined if there is none. Its argument is for
 *   scripts: '1' if a node may live whose last heartbeat lies ahead of Redis's clock. At the end of the wait it does not: after
 *   a step back of that clock, living nodes have sent another one
 * @param deadAfterMs silence after which a node is dead
 * @throws {Error} with that message if the node is still there at the end
 */
export async function whileNodeLingers(
  findObstacle: (mayBeAhead: '1' | '0') => Promise<string | undefined>,
  deadAfterMs: number,
): Promise<void> {
  const deadlineMs = performance.now() + deadAfterMs + MARGIN_MS;
  for (;;) {
    const isLast = performance.now() > deadlineMs;
    const obstacle = await findObstacle(isLast ? '0' : '1');
    if (obstacle === undefined) return;
    if (isLast) throw new Error(obstacle);
    await wait(POLL_MS);
  }
}
