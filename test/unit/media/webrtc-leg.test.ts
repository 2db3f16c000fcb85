import { errors } from 'mediasoup';
import { expect, test, vi } from 'vitest';
import {
  WebRtcLeg,
  type WebRtcLegEvents,
  type WebRtcLegHost,
} from '../../../src/media/webrtc-leg.ts';

/** Observer of a transport, which tells nothing. */
const observer = { once: () => {} };

const turn = () => new Promise(setImmediate);

/** A leg that produces; the media worker answers in the next turn of the event loop. */
async function openProducing() {
  const nothing = () => {};
  const answered = async (paused: boolean) => {
    await turn();
    producer.paused = paused;
  };
  const producer = {
    id: 'p',
    paused: false,
    pause: () => answered(true),
    resume: () => answered(false),
  };
  const transport = {
    id: 't',
    observer,
    on: nothing,
    close: nothing,
    produce: async () => producer,
  };
  const host = {
    router: { createWebRtcTransport: async () => transport },
    publish: async () => {},
    onClosed: nothing,
  } as unknown as WebRtcLegHost;
  const leg = await WebRtcLeg.open(host, {} as WebRtcLegEvents);
  await leg.produce('t', {} as never);
  return { leg, producer };
}

test('an operator mutes a browser whose resume the media worker has not answered yet', async () => {
  const { leg, producer } = await openProducing();
  await leg.pauseProducer('p');
  const resumed = leg.resumeProducer('p');
  const muted = leg.setMuted(true);
  await Promise.all([resumed, muted]);
  expect(producer.paused).toBe(true);
  await Promise.all([leg.setMuted(false), leg.setMuted(true), leg.setMuted(false)]);
  expect(producer.paused).toBe(false);
});

test('a leg whose transports are gone produces nothing any more, so that nothing waits for it', async () => {
  const { leg } = await openProducing();
  expect(leg.isProducing).toBe(true);
  leg.close();
  expect(leg.isProducing).toBe(false);
});

/** A leg whose media worker answers only when it is told to. */
async function openWaiting(publish: (leg: WebRtcLeg) => void = () => {}) {
  const made = {
    id: 'm',
    closed: false,
    on: () => {},
    close: () => {
      made.closed = true;
    },
  };
  const answer = Promise.withResolvers<typeof made>();
  const transport = {
    id: 't',
    observer,
    closed: false,
    on: () => {},
    close: () => (transport.closed = true),
    produce: () => answer.promise,
    consume: () => answer.promise,
  };
  const published: unknown[] = [];
  const host = {
    router: { createWebRtcTransport: async () => transport, canConsume: () => true },
    publish: async (producer: unknown) => {
      published.push(producer);
      publish(leg);
    },
    onClosed: () => {},
  } as unknown as WebRtcLegHost;
  const leg: WebRtcLeg = await WebRtcLeg.open(host, {} as WebRtcLegEvents);
  return { leg, made, published, answer: () => answer.resolve(made) };
}

test('produce and consume of a leg that closes meanwhile reject, and close what mediasoup made', async () => {
  for (const ask of [
    (leg: WebRtcLeg) => leg.produce('t', {} as never),
    (leg: WebRtcLeg) => leg.consume('p', {}),
  ]) {
    const { leg, made, published, answer } = await openWaiting();
    const asked = ask(leg);
    leg.close();
    answer();
    await expect(asked).rejects.toMatchObject({ code: 'media_lost' });
    expect(made.closed).toBe(true);
    expect(published).toEqual([]);
  }
});

test('a leg that closes while its producer is published keeps none', async () => {
  const { leg, made, answer } = await openWaiting((open) => open.close());
  answer();
  await expect(leg.produce('t', {} as never)).rejects.toMatchObject({ code: 'media_lost' });
  expect(made.closed).toBe(true);
});

test.each([
  ['ends', 'bad_message'],
  ['loses its media worker', 'media_lost'],
])('a consumer that %s before the media worker answers its resume: %s', async (how, code) => {
  const answer = Promise.withResolvers<void>();
  const consumer = { id: 'c', closed: false, on: () => {}, resume: () => answer.promise };
  const transport = { closed: false, observer, on: () => {}, consume: async () => consumer };
  const host = {
    router: { createWebRtcTransport: async () => transport, canConsume: () => true },
  } as unknown as WebRtcLegHost;
  const leg = await WebRtcLeg.open(host, {} as WebRtcLegEvents);
  await leg.consume('p', {});
  const resumed = leg.resumeConsumer('c');
  consumer.closed = true;
  transport.closed = how !== 'ends';
  answer.reject(new Error('Channel request handler with ID c not found'));
  await expect(resumed).rejects.toMatchObject({ code });
});

test('consume() asks once what a browser can receive, and ignores a producer that has ended', async () => {
  const canConsume = vi.fn<() => boolean>().mockReturnValue(true);
  const consumer = { id: 'c', on: () => {} };
  const consume = vi
    .fn<() => Promise<typeof consumer>>()
    .mockResolvedValueOnce(consumer)
    .mockRejectedValueOnce(new errors.NotFoundError('Producer with id "q" not found'));
  const transport = { closed: false, observer, on: () => {}, consume };
  const host = { router: { createWebRtcTransport: async () => transport, canConsume } };
  const leg = await WebRtcLeg.open(host as unknown as WebRtcLegHost, {} as WebRtcLegEvents);
  expect(await leg.consume('p', {})).toBe(consumer);
  expect(await leg.consume('q', {})).toBeUndefined();
  expect(canConsume).toHaveBeenCalledTimes(1);
});
