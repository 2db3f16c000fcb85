import { createWorker } from 'mediasoup';
import type { Router, RouterRtpCodecCapability, Worker } from 'mediasoup/types';
import { readSettings } from '../config/settings.ts';
import type { PlainLeg } from '../src/media/plain-leg.ts';
import { writeRtpPacket } from '../src/rtp/packet.ts';
import { Packetizer } from '../src/rtp/packetizer.ts';
import { pin, PINNING } from './child.ts';
import { RATE_HZ } from './packets.ts';
import { FRAME_MS } from './pacing.ts';

const OPUS: RouterRtpCodecCapability = {
  kind: 'audio',
  mimeType: 'audio/opus',
  clockRate: 48_000,
  channels: 2,
};

/**
 * Starts media workers without a gateway, whose watchdog would kill one that is too overloaded to answer.
 * @param cores cores on which they run, if processes can be bound to cores
 */
export async function startMediaWorkers(
  count: number,
  cores: string,
  opened: AsyncDisposableStack,
): Promise<Worker[]> {
  const workerBin = readSettings({}).MEDIASOUP_WORKER_BIN;
  const workers: Worker[] = [];
  while (workers.length < count) {
    const worker = opened.adopt(await createWorker({ workerBin }), (part) => part.close());
    if (PINNING) pin(worker.pid, cores);
    workers.push(worker);
  }
  return workers;
}

export const openRouter = (worker: Worker): Promise<Router> =>
  worker.createRouter({ mediaCodecs: [OPUS] });

/** Speaker that sends a packet of 20 ms at each call of `send`; `id` is that of its producer. */
export type RtpSpeaker = { id: string; send(payload: Buffer): void };

export async function openSpeaker(leg: PlainLeg): Promise<RtpSpeaker> {
  const producer = await leg.produce();
  const packetizer = new Packetizer();
  const audioLevel = 23;
  return {
    id: producer.id,
    send: (payload) => {
      const packet = packetizer.packetize(payload, (FRAME_MS * RATE_HZ) / 1000, audioLevel, 0);
      producer.send(writeRtpPacket(packet, producer));
    },
  };
}
