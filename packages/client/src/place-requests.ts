import type { Connection, MessageOf, SendRequest } from './connection.ts';
import { RequestError } from './errors.ts';
import type { Transport } from './state.ts';

/** Requests that give the client a place in a room, or end it. */

/** Asks for a place in a room by a transport. In the client's present room this changes the transport. @throws {RequestError} */
export const askForPlace = (
  request: SendRequest,
  room: string,
  transport: Transport,
): Promise<MessageOf<'joined'>> =>
  request({ type: 'join', room, ...(transport === 'webrtc' && { media: transport }) });

/** Gives up the place, if there is one. @throws {RequestError} */
export async function leavePlace({ request }: Connection): Promise<void> {
  try {
    await request({ type: 'leave' });
  } catch (error) {
    // The client is in no room: its join was refused.
    if (!(error instanceof RequestError) || error.code !== 'bad_message') throw error;
  }
}

/** Gives up the place. A gateway that no longer has the client in the room, or is gone, does no further harm. */
export const leaveQuietly = (connection: Connection): void =>
  void leavePlace(connection).catch(() => undefined);
