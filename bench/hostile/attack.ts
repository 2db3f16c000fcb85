import type { TimingOverrides } from '../../config/timings.ts';

/** Attacks: each is repeated by its clients until the time is over. */

/** Facts that the server has told one attacker on its present connection. */
export type Told = {
  /** The server has greeted it. */
  isAccepted: boolean;
  /** The last `joined`, as it came; undefined before the first. */
  joined: JoinedMessage | undefined;
  /** Id of the last producer; undefined before the first. */
  producerId: string | undefined;
  /** Id of the last consumer that it was offered; undefined before the first. */
  consumerId: string | undefined;
  /** Number of requests with an `id` that an error has answered; a warning `rate_limited` answers none, and is not counted. */
  refused: number;
};

export type JoinedMessage = {
  webrtc?: { send_transport: { id: string; dtls_parameters: unknown } };
};

export type Attack = MessageAttack | RawAttack;

/** An attack by messages over `/ws`. */
export type MessageAttack = {
  name: string;
  /** Query of the connection, beside room, peer and key; a `room` other than the lobby is joined at once. */
  query?: Record<string, string>;
  /** Messages without end: text, binary, or `undefined` for a turn of the event loop without a message. */
  messages(told: Told): Generator<string | Buffer | undefined>;
  /** Messages a second at most; without it, as many as the connection takes. */
  perSecond?: number;
  /** Each message is sent as a ping (RFC 6455 §5.5.2), of at most 125 bytes. */
  asPings?: true;
  /** Number of messages after which it closes the connection and connects again at once. */
  reconnectAfter?: number;
  /** All clients of the attack use one name, and connect anew before they close the last connection, so that each connection replaces the one before. */
  isOneName?: true;
  /** Names of further peers of the account, which talk in the room `attacked` meanwhile. */
  speakers?: string[];
  /** Number of further peers of the account, which hear every packet in the room `attacked` meanwhile. */
  listeners?: number;
} & AnyAttack;

type AnyAttack = {
  /** One of the codes in the column *told* without which the attack did not do what its name says. */
  provokes?: string;
  /** Largest number of clients, where one process cannot be more. */
  mostClients?: number;
  /** Smallest number of clients, where one alone is no attack. */
  fewestClients?: number;
  /** Plan of the account of a single client, where `free` has too few connections. */
  leastPlan?: 'starter';
  /** Durations of the gateway, where those of the product are longer than the attack. */
  timings?: TimingOverrides;
  /** The account has the records of a busy month. */
  hasBusyMonth?: true;
  /** The account's webhook takes requests and answers none; a usage worker sends to it. */
  hasHangingWebhook?: true;
  /** The bare server would not react to it, so that it has no floor: only quiet is subtracted. */
  hasNoFloor?: true;
};

/** An attack over connections of its own making. */
export type RawAttack = {
  name: string;
  /** Connects a client. @returns function that attacks until `isOver()` */
  open(context: AttackContext): Promise<() => Promise<void>>;
  /** The server serves HTTPS and WSS. */
  isOverTls?: true;
  /** Most of its connections or requests should be refused; the attack counts if there were enough of either. */
  isRefused?: true;
} & AnyAttack;

/** Target of one client of a {@link RawAttack}, and the counts that it reports. */
export type AttackContext = {
  url: string;
  apiKey: string;
  /** Number of the client in the attack. */
  client: number;
  isOver: () => boolean;
  /** Counts a connection. */
  noteConnection: () => void;
  /** Counts this client as accepted. */
  noteAccepted: () => void;
  /** Counts the status of an answer over HTTP, and this client as accepted if it is below 400. */
  noteAnswer: (status: number) => void;
  /** Counts bytes of answers over HTTP. */
  noteReceived: (bytes: number) => void;
  /** Counts messages that left. */
  noteSent: (messages: number, bytes: number) => void;
  /** Counts a code that the server told. */
  noteTold: (code: string) => void;
};

/** Counts of one attack, for the table. */
export type AttackReport = {
  /** Connections that were opened; a gateway refuses some of them afterwards. 0 if the attack sends requests by `fetch`, which keeps its connections. */
  connections: number;
  /** Clients of which the server accepted a connection. */
  accepted: number;
  /** Messages that left the attacker. */
  messages: number;
  /** Size of these messages. */
  bytes: number;
  /** Bytes of answers over HTTP. */
  answerBytes?: number;
  /** Bytes of sound that the attack's listeners received in all; undefined if it has none. */
  heardBytes?: number;
  /** Close codes, error codes and HTTP statuses, with how often each came; a close by the attacker itself does not count. */
  told: Record<string, number>;
};
