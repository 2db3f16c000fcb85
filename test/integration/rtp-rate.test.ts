import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { opusTone } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';
import { WebRtcClient } from '../support/webrtc-client.ts';
import { WhipClient } from '../support/whip-client.ts';

/** Audio over RTP far ahead of real time: 10 s at once are allowed, and here 500 ms beyond the budget (src/bridge/rtp-budget.ts). */

const use = useGateway({}, { budgets: { rtpEndAfterMs: 500 } });
const { keep, connect } = use;

test('a browser and a client of WHIP that send at ten times real time are ended, and one in real time is not', async () => {
  const packets = await opusTone(440, 0.5, 1000);
  const speak = async (peer: string) =>
    keep(await WhipClient.connect('whip', use.gateway, `/whip/a?peer=${peer}`));
  const [obs, calm] = [await speak('obs'), await speak('calm')];
  const page = await connect({ peer: 'page' });
  const { webrtc } = await page.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const browser = keep(new WebRtcClient(page, webrtc));
  await browser.produce();
  calm.talk(packets);
  obs.talk(packets, 10);
  browser.talk(packets, 10);
  expect(await page.next('error')).toMatchObject({ code: 'audio_rate_exceeded' });
  expect(await page.closed).toBe(4422);
  await eventually('the session of WHIP ends', () => obs.isEnded);
  expect((await obs.ask('GET')).status).toBe(404);
  expect((await calm.ask('GET')).status).toBe(200);
});
