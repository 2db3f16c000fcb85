import { TestClient } from './client.ts';
import { eventually } from './gateway.ts';
import { decodeOpus, opusTone, peakHz, play } from './sound.ts';

const TONE_HZ = 1000;
const TONE_MS = 1000;
/** Packets, of the 50 that are sent, that are enough to tell a frequency. */
const ENOUGH_PACKETS = 40;

/**
 * Two clients in a room of a gateway that runs elsewhere; they stay.
 * @param urls addresses of the speaker's and of the listener's gateway
 */
export async function enterTwo(urls: [string, string], apiKey: string, room = 'a') {
  const enter = async (url: string, peer: string) => {
    const client = await TestClient.connect(url, { room, peer, api_key: apiKey, audio: 'opus' });
    await client.next('joined');
    return client;
  };
  const listener = await enter(urls[1], 'listener');
  return { speaker: await enter(urls[0], 'speaker'), listener };
}

/** Sends a tone from one client to the other. @returns the frequency sent, and the loudest one heard, Hz */
export async function sendTone({ speaker, listener }: Awaited<ReturnType<typeof enterTwo>>) {
  const before = listener.frames.length;
  await play(speaker, await opusTone(TONE_HZ, 0.5, TONE_MS));
  const heard = () => listener.frames.slice(before);
  await eventually('the tone is heard', () => heard().length >= ENOUGH_PACKETS);
  return { sentHz: TONE_HZ, heardHz: peakHz(await decodeOpus(heard())) };
}
