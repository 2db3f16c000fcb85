/** Load of one media worker. */
export type MediaWorkerLoad = {
  /** CPU used recently, as a share of one core. */
  cpuShare: number;
  routers: number;
  consumers: number;
};

/**
 * Load that each consumer counts for beside the measured CPU, as a share of a core: rooms that open at once, and quiet
 * rooms, are spread before they use CPU. A consumer that is sent audio costs about as much (docs/decisions.md).
 */
const SHARE_A_CONSUMER = 0.0005;
/** Load that each router counts for beside the measured CPU, as a share of a core: an estimate of the browsers that will join. */
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
