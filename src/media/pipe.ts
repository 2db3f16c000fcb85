import type { Producer, Router } from 'mediasoup/types';
import { LOOPBACK_LISTEN_INFO } from './loopback.ts';

/** Pipes a new producer to every router of its room; resolves when it can be consumed on each. */
export type Publish = (producer: Producer) => Promise<void>;

/**
 * Pipes a producer to another media worker's router, under the same id; the copy is paused, resumed and closed with it.
 * Returns undefined if either end has closed meanwhile.
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
    // mediasoup's own relay leaves rejections unhandled, which ends the process when a media worker
    // dies or hangs.
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

/** Closes a copy that cannot follow its original, because it might forward audio of a paused producer. */
function follow(pipeProducer: Producer, request: Promise<void>): void {
  request.catch(() => pipeProducer.close());
}
