import type { FastifyBaseLogger } from 'fastify';
import type { Credentials } from '../accounts/authenticator.ts';
import { PLANS } from '../accounts/plans.ts';
import { serializeSettings } from '../session/audio-settings.ts';
import type { Admission, CcuLeases } from '../usage/ccu-leases.ts';
import type { LeaseHolder } from '../usage/lease-holder.ts';
import { preferencesOf, type SessionQuery } from './query.ts';

/** A session and its connection. */
export type Ids = { sessionId: string; connectionId: string };

/** A client's lease, and the ways to give it back, which log their faults. */
export type Lease = Admission & {
  holder: LeaseHolder;
  /** Time of the admission (`performance.now()`). */
  admittedAtMs: number;
  /** @param keepSettingsMs time for which the settings of the session are kept */
  release: (keepSettingsMs?: number) => void;
  /** Releases the lease of a client that is refused, so that an attempt that fails changes nothing. */
  withdraw: () => void;
  /** Lets the lease, the place and the settings expire, for a client that may come back to that place. */
  letExpire: () => void;
};

const NOTHING_SET = { detected: undefined, volume: {}, isMuted: false };

/**
 * Takes a lease of the account's connections for a client.
 * @throws {PartylineError} as {@link CcuLeases.admit} does
 */
export async function takeLease(
  {
    credentials: { account },
    query,
    log,
  }: { credentials: Credentials; query: SessionQuery; log: FastifyBaseLogger },
  { sessionId, connectionId }: Ids,
  leases: CcuLeases,
  isMoved: boolean,
): Promise<Lease> {
  const { peer, audio } = query;
  const holder = { accountId: account.id, peer, connectionId };
  const { maxCcu } = PLANS[account.plan];
  const settings = { ...preferencesOf(audio, account), ...NOTHING_SET };
  const session = { sessionId, settings: serializeSettings(settings) };
  const admission = await leases.admit(holder, maxCcu, isMoved, session);
  const logged = (released: Promise<void>) => {
    released.catch((fault: unknown) => {
      log.warn({ err: fault, peer }, 'lease not released; retrying');
    });
  };
  return {
    ...admission,
    holder,
    admittedAtMs: performance.now(),
    release: (keepSettingsMs) => logged(leases.release(holder, keepSettingsMs)),
    withdraw: () => logged(leases.withdraw(holder)),
    letExpire: () => void leases.letExpire(holder),
  };
}
