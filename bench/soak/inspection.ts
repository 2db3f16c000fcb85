/** Resources that a gateway process holds, as it sees them itself. */
export type Inspection = {
  /** In use after a full collection. */
  heapBytes: number;
  /** Timers, sockets and the like, by kind. */
  resources: Record<string, number>;
  /** In its media workers, as those know it: routers, and all that is in them (transports, producers, consumers, observers). */
  routers: number;
  mediaObjects: number;
};

/** A gateway that has been started with inspect.ts answers this signal with a line that begins so. */
export const INSPECT_SIGNAL = 'SIGUSR2';
export const INSPECTED = 'inspected ';
