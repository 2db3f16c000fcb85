/** Names of the large but friendly moments, which the process of the crowd and its parent share. */
export const MOMENTS = [
  '100 browsers come into one room and produce',
  '400 peers come into one room',
  '400 peers leave one room, and 10 stay',
  '400 peers go from one room into 400',
  '500 peers of one room come back after their node has died',
  '400 peers of one room go elsewhere as their node drains',
  'a usage report of a busy month, by the minute',
] as const;
export type Moment = (typeof MOMENTS)[number];

/** Addresses of the crowd's node and of another one. */
export type Places = { url: string; otherUrl: string; apiKey: string };

/** Report of the crowd to its parent. */
export type CrowdReport = {
  /** Time from the beginning until everybody was told of everybody, or of all who left, ms. */
  toldMs: number;
  /** Longest time from when a browser had connected, and all had begun to produce, until its last consumer was offered, ms. */
  offeredAfterMs?: number;
};
