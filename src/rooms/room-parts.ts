import type { FastifyBaseLogger } from 'fastify';
import type { FrameClock } from '../audio/clock.ts';
import type { MixEnginePool } from '../audio/mixing/mix-engine-pool.ts';
import type { UplinkTimings } from '../bridge/uplink.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { IceServers } from '../media/ice-servers.ts';
import type { MediaWorkerPool } from '../media/media-worker-pool.ts';
import type { LeaveReason, PeerKind } from '../protocol/messages.ts';
import type { Slices } from '../slices.ts';
import type { RtpBudgets } from './rtp-budgets.ts';

/** The account of a room, and its name. */
export type RoomKey = { accountId: number; name: string };

/** Parts of the process that its rooms need. */
export type RoomParts = {
  /** Called when a peer of this node has entered a room; again if it was there already. */
  onJoined: (accountId: number, room: string, peer: string, kind: PeerKind) => void;
  /**
   * Called when a peer of this node has left a room.
   * @param isElsewhere true if the peer has a connection to another node
   */
  onLeft: (
    accountId: number,
    room: string,
    peer: string,
    reason: LeaveReason,
    isElsewhere: boolean,
  ) => void;
  /** Counts the time of a peer of an account; returns the function that ends the count. */
  meterPeer: (accountId: number, room: string, kind: PeerKind) => () => void;
  /** Notes the number of peers in a room, over all nodes. */
  meterSize: (accountId: number, room: string, peers: number) => void;
  /**
   * Charges an account for messages of unknown formats.
   * @param cost number of deliveries; each 4 KiB of a message counts as a further delivery
   * @returns false if its budget is used up
   */
  chargeRelay: (accountId: number, cost: number) => boolean;
  pool: MediaWorkerPool;
  cluster: Cluster;
  mixEngines: MixEnginePool;
  clock: FrameClock;
  slices: Slices;
  iceServers: IceServers;
  log: FastifyBaseLogger;
  /** Maximum number of speakers mixed at once; the loudest win. */
  maxMixedSpeakers: number;
  /** Level from which a speaker counts as talking: dBov, negative. */
  talkThresholdDbov: number;
  /** Time for which a speaker counts as talking after the last sound, ms. */
  talkHoldMs: number;
  uplinkTimings: UplinkTimings;
  rtpBudgets: RtpBudgets;
};
