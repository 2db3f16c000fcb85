import type { MessageId, ServerMessage } from '../protocol/messages.ts';

/** Part of a session with which its other parts notify the client or end its connection. */
export type ClientNotifier = {
  notify(message: ServerMessage): void;
  /**
   * Tells the client about a fault and closes its connection.
   * @param replyTo `id` of the message that is answered with it, if any
   */
  fail(fault: unknown, replyTo?: MessageId): void;
};
