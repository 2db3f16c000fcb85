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
/** A router stands for the browsers that will come to it. */
const SHARE_A_ROUTER = 0.005;

/** The load of a media worker as one figure: the CPU that it uses, and what its routers and consumers may come to. */
const loadOf = ({ cpuShare, routers, consumers }: MediaWorkerLoad): number =>
  cpuShare + consumers * SHARE_A_CONSUMER + routers * SHARE_A_ROUTER;

/** The one with the least load, the first of several; undefined if there is none. */
export function leastLoaded<T extends { load: MediaWorkerLoad }>(
  workers: Iterable<T>,
): T | undefined {
  const [least] = [...workers].toSorted((one, other) => loadOf(one.load) - loadOf(other.load));
  return least;
}
