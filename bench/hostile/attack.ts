/** An attack as one client makes it, again and again until its time is over. */

/** Messages that an attacker has received on its present connection. */
export type Told = {
  /** The server has greeted it. */
  isAccepted: boolean;
  /** The last `joined`, as it came; undefined before the first. */
  joined: JoinedMessage | undefined;
};

export type JoinedMessage = {
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
  /** Connects under one name from every client of the attack, and before it closes the last connection, so that each replaces the one before. */
  isOneName?: true;
  /** Code that the gateway must have told if the attack did what its name says. */
  provokes?: string;
};

/** Counts of one attack, for the table. */
export type AttackReport = {
  /** Connections that were opened; a gateway refuses some of them afterwards. */
  connections: number;
  /** Clients of which the server accepted a connection. */
  accepted: number;
  /** Messages that left the attacker. */
  messages: number;
  /** Size of these messages. */
  bytes: number;
  /** Close codes and error codes, with how often each came; a close by the attacker itself does not count. */
  told: Record<string, number>;
};
