/**
 * Orders of events: the digits of their `created_at` without the century, as a number, by which `scripts/includes/outbox.lua`
 * sorts.
 */

const YEAR_2000_MS = Date.UTC(2000, 0);

/** `order` of an event that was created at a moment, ms since 1970. */
export const orderAt = (ms: number) =>
  Number(new Date(Math.max(ms, YEAR_2000_MS)).toISOString().replaceAll(/\D/g, '').slice(2));

/** The moment of an `order`, ms since 1970. */
export function momentOf(order: number): number {
  const digits = String(order).padStart(15, '0');
  const [, ...parts] = /^(..)(..)(..)(..)(..)(..)(...)$/.exec(digits) ?? [];
  const [year = 0, month = 1, day = 1, ...time] = parts.map(Number);
  return Date.UTC(2000 + year, month - 1, day, ...(time as [number, number, number, number]));
}
