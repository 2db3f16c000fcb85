import { expect, test } from 'vitest';
import {
  WebRtcLeg,
  type WebRtcLegEvents,
  type WebRtcLegPlace,
} from '../../../src/media/webrtc-leg.ts';

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
  const transport = { id: 't', on: nothing, close: nothing, produce: async () => producer };
  const place = {
    router: { createWebRtcTransport: async () => transport },
    publish: async () => {},
    onClosed: nothing,
  } as unknown as WebRtcLegPlace;
  const leg = await WebRtcLeg.open(place, {} as WebRtcLegEvents);
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
