import type { ServerMessage } from '../protocol/messages.ts';

/** A client's session, as far as its parts tell the client something, or end its connection. */
export type ClientNotifier = {
  notify(message: ServerMessage): void;
  /** Tells the client about a fault and closes its connection. */
  fail(fault: unknown): void;
};
