/** Serial number arithmetic (RFC 1982) for the two counters of RTP, which wrap: 16-bit sequence numbers, 32-bit timestamps. */

/** Returns the distance from `from` to `to`, -32768…32767; negative if `to` is older. */
export function sequenceDelta(from: number, to: number): number {
  return ((to - from) << 16) >> 16;
}

/** Returns the distance from `from` to `to` in timestamp units, -2³¹…2³¹-1; negative if `to` is older. */
export function timestampDelta(from: number, to: number): number {
  return (to - from) | 0;
}
