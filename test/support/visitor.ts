import { setTimeout as sleep } from 'node:timers/promises';
import { TestClient } from './client.ts';
import { decodeOpus, keepPlaying, opusTone, peakHz } from './sound.ts';
import { WebRtcClient } from './webrtc-client.ts';

/** A client that is a process, for another machine: it joins room `a`, says a tone over and over, and writes what it hears. */

/** The only argument of the program, as JSON. */
export type Visit = {
  url: string;
  apiKey: string;
  peer: string;
  media: 'websocket' | 'webrtc';
  /** Local address of the visitor. */
  address: string;
  toneHz: number;
  /** The peer that it listens to by WebRTC; over a WebSocket it hears the mix. */
  listensTo: string;
};

/** Packets of 20 ms in which a tone is looked for. */
const PACKETS = 25;

const visit = JSON.parse(process.argv[2] ?? '') as Visit;
const { url, apiKey, peer, media, address, toneHz, listensTo } = visit;
const client = await TestClient.connect(url, {
  room: '__lobby__',
  peer,
  api_key: apiKey,
  audio: 'opus',
});
const tone = await opusTone(toneHz, 0.5, 1000);
const join = { type: 'join', room: 'a' };
let heard: () => Buffer[];
if (media === 'websocket') {
  await client.ask(join, 'joined');
  keepPlaying(client, tone);
  heard = () => client.frames;
} else {
  const { webrtc } = await client.ask({ ...join, media }, 'joined');
  const browser = new WebRtcClient(client, webrtc, [address]);
  await browser.produce();
  browser.talk(tone);
  await browser.hear();
  heard = () =>
    browser.heard.filter((packet) => packet.peer === listensTo).map(({ payload }) => payload);
}
for (;;) {
  await sleep(200);
  const packets = heard().slice(-PACKETS);
  if (packets.length === PACKETS) {
    process.stdout.write(`hears ${peakHz(await decodeOpus(packets))}\n`);
  }
}
