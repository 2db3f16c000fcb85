/** Counters of a usage worker since its start, read at each scrape. */
export const workerCounters = {
  /** Minutes of accounts that this worker has closed. */
  minutesClosed: 0,
  /** Requests to webhooks, by result: the endpoint accepted the event, or not. */
  webhookRequests: { taken: 0, failed: 0 },
  /** Faults after which work was retried, for example while Redis was disconnected. */
  faults: 0,
};
