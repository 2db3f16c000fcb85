import { expect, test } from 'vitest';
import {
  WebRtcLeg,
  type WebRtcLegEvents,
  type WebRtcLegPlace,
} from '../../../src/media/webrtc-leg.ts';

test('a leg whose transports are gone produces nothing any more, so that nothing waits for it', async () => {
  const nothing = () => {};
  const transport = {
    id: 't',
    on: nothing,
    close: nothing,
    produce: async () => ({ id: 'p', paused: false }),
  };
  const place = {
    router: { createWebRtcTransport: async () => transport },
    publish: async () => {},
    onClosed: nothing,
  } as unknown as WebRtcLegPlace;
  const leg = await WebRtcLeg.open(place, {} as WebRtcLegEvents);
  await leg.produce('t', {} as never);
  expect(leg.isProducing).toBe(true);
  leg.close();
  expect(leg.isProducing).toBe(false);
});
