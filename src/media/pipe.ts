import type { Consumer, PipeTransport, Producer, Router } from 'mediasoup/types';
import { LOOPBACK_LISTEN_INFO } from './loopback.ts';

/** Pipes a new producer to every router of its room; resolves when it can be consumed on each. */
export type Publish = (producer: Producer) => Promise<void>;

/**
 * Pipe between the routers of a room on two media workers: a transport on each, and one closes with the other. mediasoup's
 * `pipeToRouter` leaves the first open when the second cannot be opened, and keeps that failure for all later producers.
 */
export class Pipe {
  readonly #here: PipeTransport;
  readonly #there: PipeTransport;

  private constructor(here: PipeTransport, there: PipeTransport) {
    this.#here = here;
    this.#there = there;
  }

  /** @throws {Error} if an end cannot be opened, or a router closes meanwhile; no end is left open */
  static async open(here: Router, there: Router): Promise<Pipe> {
    const [near, far] = await openEnds(here, there);
    near.observer.once('close', () => far.close());
    far.observer.once('close', () => near.close());
    try {
      await Promise.all([near.connect(addressOf(far)), far.connect(addressOf(near))]);
      checkOpen(here, there, near, far);
      return new Pipe(near, far);
    } catch (fault) {
      near.close();
      far.close();
      throw fault;
    }
  }

  /**
   * Copies a producer from here to there, under the same id; the copy is paused, resumed and closed with it.
   * Returns undefined if the pipe or the producer has been closed meanwhile.
   */
  send(producer: Producer): Promise<Producer | undefined> {
    return copy(producer, this.#here, this.#there);
  }

  /** Copies a producer from there to here, in the same way. */
  fetch(producer: Producer): Promise<Producer | undefined> {
    return copy(producer, this.#there, this.#here);
  }
}

async function openEnds(here: Router, there: Router): Promise<[PipeTransport, PipeTransport]> {
  const options = { listenInfo: LOOPBACK_LISTEN_INFO, enableSctp: false };
  const [near, far] = await Promise.allSettled([
    here.createPipeTransport(options),
    there.createPipeTransport(options),
  ]);
  if (near.status === 'fulfilled' && far.status === 'fulfilled') return [near.value, far.value];
  for (const end of [near, far]) if (end.status === 'fulfilled') end.value.close();
  throw near.status === 'rejected' ? near.reason : (far as PromiseRejectedResult).reason;
}

const addressOf = ({ tuple: { localAddress, localPort } }: PipeTransport) => ({
  ip: localAddress,
  port: localPort,
});

/** Checks that nothing was closed during a request: mediasoup makes what was asked for even then, and never closes it. */
function checkOpen(...parts: { readonly closed: boolean }[]): void {
  if (parts.some(({ closed }) => closed)) throw new Error('the pipe was closed meanwhile');
}

async function copy(
  producer: Producer,
  from: PipeTransport,
  to: PipeTransport,
): Promise<Producer | undefined> {
  let consumer: Consumer | undefined;
  let copied: Producer | undefined;
  try {
    consumer = await from.consume({ producerId: producer.id });
    checkOpen(producer, consumer, from, to);
    const { kind, rtpParameters, producerPaused: paused } = consumer;
    copied = await to.produce({ id: producer.id, kind, rtpParameters, paused });
    checkOpen(producer, consumer, from, to);
    await tie(consumer, copied);
    checkOpen(consumer, copied);
    return copied;
  } catch (fault) {
    const isOver = producer.closed || from.closed || to.closed;
    consumer?.close();
    copied?.close();
    if (isOver) return undefined;
    throw fault;
  }
}

/** Closes, pauses and resumes a copy with the consumer that feeds it, from now on; resolves when it is paused if the consumer is. */
async function tie(consumer: Consumer, copied: Producer): Promise<void> {
  consumer.observer.on('close', () => copied.close());
  copied.observer.on('close', () => consumer.close());
  consumer.observer.on('pause', () => follow(copied, copied.pause()));
  consumer.observer.on('resume', () => follow(copied, copied.resume()));
  if (copied.paused === consumer.producerPaused) return;
  await (consumer.producerPaused ? copied.pause() : copied.resume());
}

/** Closes a copy that cannot follow its original, because it might forward audio of a paused producer. */
function follow(copied: Producer, request: Promise<void>): void {
  request.catch(() => copied.close());
}
