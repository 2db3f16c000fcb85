/** Resources of a gateway process, as the process itself counts them. */
export type Inspection = {
  /** Heap in use after a full collection. */
  heapBytes: number;
  /** Numbers of timers, sockets and other handles, by kind. */
  resources: Record<string, number>;
  /**
   * Number of routers in its media workers, as these count them; and of all objects in the routers
   * (transports, producers, consumers, observers).
   */
  routers: number;
  mediaObjects: number;
};

/** Signal that a gateway with inspect.ts answers with a line of this beginning. */
export const INSPECT_SIGNAL = 'SIGUSR2';
export const INSPECTED = 'inspected ';
