/** Limits of each subscription plan. `minutesPerMonth` is undefined where there is no limit. */
export const PLANS = {
  free: { maxCcu: 5, minutesPerMonth: 100 },
  starter: { maxCcu: 25, minutesPerMonth: 1000 },
  pro: { maxCcu: 500, minutesPerMonth: undefined },
} as const;

/** Stands for "no limit" on the wire, so that typed and comparing clients keep working (docs/protocol.md). */
export const UNLIMITED_MINUTES = 1_000_000_000;
