/**
 * Counters of this process since its start, read at each scrape: plain numbers to which the hot path adds.
 * Nothing is reported until a scrape.
 */
export const counters = {
  /** Binary frames of clients. */
  framesIn: 0,
  framesOut: 0,
  /** RTP packets from and to the rooms' routers. */
  routerPacketsIn: 0,
  routerPacketsOut: 0,
  /** Packets or binary frames that were dropped, by reason. */
  dropped: {
    /** Sent outside of any room. */
    not_in_room: 0,
    /** Came faster than real time, or beyond the budget of their format. */
    too_fast: 0,
    /**
     * Came after their turn, twice, or too many at once, or waited for too long: for a decoder, or until the
     * format of their client was known.
     */
    late: 0,
    /** Malformed audio. */
    undecodable: 0,
    /**
     * Messages of an unknown format that were not delivered: over the account's budget, or held or queued for
     * too long or in too great a number.
     */
    not_relayed: 0,
    /** Audio for clients that do not read. */
    unread: 0,
  },
  /** Connections that were closed on arrival, or before their client had authenticated, to keep a reserve of file descriptors. */
  connectionsNotAccepted: 0,
  /** Transports of WebRTC that were closed because their client sent too much, or did not read. */
  transportsCut: 0,
  /** Faults that said that a resource had run out. */
  shortages: { descriptors: 0, memory: 0, threads: 0, ports: 0, disk: 0 },
  /** Lines of the log that could not be written, and were not kept either. */
  logLinesLost: 0,
  /** Messages of other nodes whose seal was wrong; pipes to other nodes that failed or were cut, and producers that could not be piped. */
  sealFaults: 0,
  pipeFaults: 0,
  /** Messages of unknown formats from (in) and to (out) other nodes. */
  relayed: { in: 0, out: 0 },
  /** Connections to other nodes that failed or were cut, and connections from elsewhere that were refused. */
  relayFaults: 0,
  relayRefusals: 0,
  /** Concealed audio in place of lost packets, samples at 48 kHz. */
  concealedSamples: 0,
  /** Ticks of rooms that were mixed, and the time that they took, ms: in the event loop, and in mixing threads. */
  mixing: {
    inline: { ticks: 0, costMs: 0 },
    thread: { ticks: 0, costMs: 0 },
    /** Ticks of mixing threads whose audio was dropped because the thread was late. */
    skippedTicks: 0,
  },
};

export type Counters = typeof counters;
