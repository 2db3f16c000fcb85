import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';

/** Time after which a query is given up even if servers and repetitions are left, ms. Shorter than `requestTimeoutMs` of webhooks. */
const LIMIT_MS = 4000;
/** Time that the other family still gets once one has addresses, ms: some servers never answer queries of type AAAA. */
const OTHER_FAMILY_MS = 250;

export type Family = 4 | 6;
export type DnsResolver = {
  resolve4: (name: string) => Promise<string[]>;
  resolve6: (name: string) => Promise<string[]>;
  cancel: () => void;
};

/**
 * Queries DNS for the addresses of a name.
 * @returns the addresses, in the order of `families`, and the faults of the queries that failed or were cancelled
 * @param resolver used for this query alone: it is cancelled when the time is over
 */
export async function queryDns(resolver: DnsResolver, name: string, families: readonly Family[]) {
  // Ends all queries that are left, with a fault.
  const cancel = () => resolver.cancel();
  const timers = [setTimeout(cancel, LIMIT_MS)];
  const answers = await Promise.allSettled(
    families.map(async (family) => {
      const found = await (family === 4 ? resolver.resolve4(name) : resolver.resolve6(name));
      if (found.length > 0) timers.push(setTimeout(cancel, OTHER_FAMILY_MS));
      return found.map(toLookupAddress);
    }),
  );
  for (const timer of timers) clearTimeout(timer);
  return {
    addresses: answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : [])),
    faults: answers.flatMap((answer) =>
      answer.status === 'rejected' ? [answer.reason as NodeJS.ErrnoException] : [],
    ),
  };
}

/** Returns an address as `dns.lookup` does, with its family. */
export const toLookupAddress = (address: string): LookupAddress => ({
  address,
  family: isIP(address),
});
