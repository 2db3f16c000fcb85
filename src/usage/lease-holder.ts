/** Holder of a lease: a peer of an account, and its connection. */
export type Holder = { accountId: number; peer: string; connectionId: string };
