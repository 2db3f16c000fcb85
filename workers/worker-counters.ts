/** Counters of a usage worker since its start, read at each scrape. */
export const workerCounters = {
  /** Minutes of accounts that this worker has closed. */
  minutesClosed: 0,
  /** Requests to webhooks, by whether the endpoint took the event. */
  webhookRequests: { taken: 0, failed: 0 },
  /** Faults that were tried again, as while Redis is away. */
  faults: 0,
};
