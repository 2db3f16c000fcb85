import { expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { opusTone } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';
import { WebRtcClient } from '../support/webrtc-client.ts';
import { WhipClient } from '../support/whip-client.ts';

/** Audio over RTP far ahead of real time: 10 s at once are allowed, and here 500 ms beyond the budget (src/bridge/rtp-budget.ts). */

const OPERATOR_KEY = 'operator-key-of-the-tests';
const use = useGateway(
  { OPERATOR_KEY },
  { budgets: { rtpEndAfterMs: 500 }, sessions: { beatEveryMs: 250 } },
);
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
  expect(await page.closed).toBe(4422);
  expect(errorsOf(page)).toEqual(['rate_limited', 'audio_rate_exceeded']);
  await eventually('the session of WHIP ends', () => obs.isEnded);
  expect((await obs.ask('GET')).status).toBe(404);
  expect((await calm.ask('GET')).status).toBe(200);
});

test('a browser and a client of WHIP that are muted and send at ten times real time are ended, too', async () => {
  const packets = await opusTone(440, 0.5, 1000);
  // The budget of a peer is kept, and a peer is told once.
  const page = await connect({ peer: 'muted page' });
  const { webrtc } = await page.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const browser = keep(new WebRtcClient(page, webrtc));
  const producer_id = await browser.produce();
  await page.ask({ type: 'pause_producer', producer_id }, 'producer_paused');
  const obs = keep(await WhipClient.connect('whip', use.gateway, '/whip/a?peer=obs'));
  await mute('obs');
  obs.talk(packets, 10);
  browser.talk(packets, 10);
  expect(await page.closed).toBe(4422);
  expect(errorsOf(page)).toEqual(['rate_limited', 'audio_rate_exceeded']);
  await eventually('the session of WHIP ends', () => obs.isEnded);
});

const errorsOf = ({ messages }: TestClient) =>
  messages.flatMap((message) => (message.type === 'error' ? [message.code] : []));

/** Mutes a peer, as the operator. */
async function mute(peer: string): Promise<void> {
  const { url, apiKey } = use.gateway;
  const me = await fetch(`${url}/api/me`, { headers: { authorization: `Bearer ${apiKey}` } });
  const { account } = (await me.json()) as { account: { id: number } };
  const path = `${url}/api/admin/accounts/${account.id}/peers/${peer}/mute`;
  const muted = await fetch(path, {
    method: 'POST',
    headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ muted: true }),
  });
  expect(muted.ok).toBe(true);
}
