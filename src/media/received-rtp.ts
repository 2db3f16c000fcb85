import type { Producer } from 'mediasoup/types';

/** Returns the number of packets that a producer has received, also while it was paused, and their bytes. @throws {Error} if it is closed */
export async function receivedRtp(producer: Producer): Promise<{ packets: number; bytes: number }> {
  const streams = await producer.getStats();
  return streams.reduce(
    (sum, { packetCount, byteCount }) => ({
      packets: sum.packets + packetCount,
      bytes: sum.bytes + byteCount,
    }),
    { packets: 0, bytes: 0 },
  );
}
