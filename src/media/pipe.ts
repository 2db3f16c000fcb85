import type { Producer, Router } from 'mediasoup/types';
import { LOOPBACK_LISTEN_INFO } from './loopback.ts';

/** Has a new producer reach every router of its room; resolves when it can be consumed on each. */
export type Publish = (producer: Producer) => Promise<void>;

/**
 * Has a producer be there on another media worker's router too, under the same id; paused, resumed and closed with it.
 * Undefined if either end has gone in the meantime.
 */
export async function pipe(
  producer: Producer,
  from: Router,
  to: Router,
): Promise<Producer | undefined> {
  try {
    const { pipeConsumer, pipeProducer } = await from.pipeToRouter({
      producerId: producer.id,
      router: to,
      listenInfo: LOOPBACK_LISTEN_INFO,
      enableSctp: false,
    });
    if (!pipeConsumer || !pipeProducer) throw new Error('mediasoup made no pipe');
    // mediasoup's own relay leaves rejections to nobody, which ends the process when a media worker dies or hangs.
    pipeConsumer.observer.removeAllListeners('pause');
    pipeConsumer.observer.removeAllListeners('resume');
    pipeConsumer.observer.on('pause', () => follow(pipeProducer, pipeProducer.pause()));
    pipeConsumer.observer.on('resume', () => follow(pipeProducer, pipeProducer.resume()));
    return pipeProducer;
  } catch (fault) {
    if (producer.closed || from.closed || to.closed) return undefined;
    throw fault;
  }
}

/** A producer that cannot follow the one it stands for would say what it should not: it is closed. */
function follow(pipeProducer: Producer, request: Promise<void>): void {
  request.catch(() => pipeProducer.close());
}
