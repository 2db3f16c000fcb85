/** An attack as one client makes it, again and again until its time is over. */

/** Messages that an attacker has received on its present connection. */
export type Told = {
  /** The last `joined`, as it came; undefined before the first. */
  joined: JoinedMessage | undefined;
};

type JoinedMessage = {
  webrtc?: { send_transport: { id: string; dtls_parameters: unknown } };
};

export type Attack = {
  name: string;
  /** Query of the connection, beside room, peer and key; a `room` other than the lobby is joined at once. */
  query?: Record<string, string>;
  /** Messages without end: text, binary, or `undefined` for a turn of the event loop without a message. */
  messages(told: Told): Generator<string | Buffer | undefined>;
  /** Messages a second at most; without it, as many as the connection takes. */
  perSecond?: number;
  /** Number of messages after which it closes the connection and connects again at once. */
  reconnectAfter?: number;
  /** Connects under one name from every client of the attack, so that each replaces the one before. */
  isOneName?: true;
};

/** Counts of one attack, for the table. */
export type AttackReport = {
  connections: number;
  messages: number;
  bytes: number;
  /** Close codes and error codes, with how often each came. */
  told: Record<string, number>;
};
