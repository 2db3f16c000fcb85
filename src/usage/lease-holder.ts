import { leaseKeys, leaseOrderKey, resumeKey } from '../store/keys.ts';

/** Holder of a lease: a peer of an account, and its connection. */
export type LeaseHolder = { accountId: number; peer: string; connectionId: string };

/** Keys of everything that is stored about a holder. */
export const keysOfPeer = ({ accountId, peer }: LeaseHolder) => [
  ...leaseKeys(accountId),
  resumeKey(accountId, peer),
  leaseOrderKey(accountId),
];
