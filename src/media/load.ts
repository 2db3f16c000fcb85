/** Load of one media worker. */
export type MediaWorkerLoad = {
  /** CPU that it used lately, as a share of one core. */
  cpuShare: number;
  routers: number;
  consumers: number;
};

/**
 * Load that a router or consumer counts for before it is measured, and while it is silent, so that rooms that open at
 * once spread, and quiet rooms as well. A consumer that is sent something costs about this share of a core
 * (docs/decisions.md).
 */
const SHARE_A_CONSUMER = 0.0005;
/** Load of a router, which stands for the browsers that will join it. */
const SHARE_A_ROUTER = 0.005;

/** Returns the load of a media worker as one figure: its CPU, plus the expected load of its routers and consumers. */
const loadOf = ({ cpuShare, routers, consumers }: MediaWorkerLoad): number =>
  cpuShare + consumers * SHARE_A_CONSUMER + routers * SHARE_A_ROUTER;

/** Returns the item with the least load, the first of equals; undefined if there is none. */
export function leastLoaded<T extends { load: MediaWorkerLoad }>(
  workers: Iterable<T>,
): T | undefined {
  const [least] = [...workers].toSorted((one, other) => loadOf(one.load) - loadOf(other.load));
  return least;
}
