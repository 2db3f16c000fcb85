import type { Producer } from 'mediasoup/types';

/** Packets that a producer has received, and their bytes. */
export type ReceivedRtp = { packets: number; bytes: number };

/** Returns all that a producer has received, also while it was paused; undefined if it is closed meanwhile. */
export async function receivedRtp(producer: Producer): Promise<ReceivedRtp | undefined> {
  try {
    const streams = await producer.getStats();
    return streams.reduce(
      (sum, { packetCount, byteCount }) => ({
        packets: sum.packets + packetCount,
        bytes: sum.bytes + byteCount,
      }),
      { packets: 0, bytes: 0 },
    );
  } catch (fault) {
    // Requests of a producer that has closed meanwhile are rejected.
    if (producer.closed) return undefined;
    throw fault;
  }
}
