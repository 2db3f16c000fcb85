import type { FastifyBaseLogger } from 'fastify';
import { PartylineError } from './errors.ts';
import { type Resource, resourceOf } from '../resources.ts';

/** Interval in which one shortage of each resource is logged, ms: thousands of clients may meet it, and the disk may be full. */
const SHORTAGE_EVERY_MS = 1000;

/** Time at which this process last logged a shortage of each resource (monotonic), and the number of those not logged since. */
const logged = new Map<Resource, { atMs: number; unlogged: number }>();

/**
 * Returns the error to send to a client for a fault. Logs faults that are not the client's, with their cause: an
 * unexpected fault as an error, a resource that has run out as a warning, once a second with the number of those that
 * were left out.
 * @param message subject of the line
 */
export function logFault(
  log: Pick<FastifyBaseLogger, 'error' | 'warn'>,
  fault: unknown,
  message: string,
): PartylineError {
  const error = PartylineError.from(fault);
  if (error.code === 'internal_error') log.error({ err: fault }, message);
  const resource = error === fault ? undefined : resourceOf(fault);
  if (resource) logShortage(log, resource, fault, message);
  return error;
}

function logShortage(
  log: Pick<FastifyBaseLogger, 'warn'>,
  resource: Resource,
  fault: unknown,
  message: string,
): void {
  const nowMs = performance.now();
  const before = logged.get(resource);
  if (before && nowMs - before.atMs < SHORTAGE_EVERY_MS) {
    before.unlogged += 1;
    return;
  }
  logged.set(resource, { atMs: nowMs, unlogged: 0 });
  log.warn({ err: fault, resource, unlogged: before?.unlogged ?? 0 }, message);
}
