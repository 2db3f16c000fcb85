import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { WebmReader } from '../../src/audio/ingest/webm-reader.ts';
import { opusPacketSamples } from '../../src/audio/opus-packet.ts';
import { TestBrowser } from '../support/browser.ts';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { undisturbed } from '../support/listening.ts';
import { watchPauses } from '../support/pauses.ts';
import { spokenTrack } from '../support/speech.ts';
import { sampleMessages } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Programs that send real-time sound in pieces of a second, as their users call them. */

const used = useGateway();
const SECONDS = 12;

const heardMs = ({ frames }: TestClient) =>
  frames.reduce((sum, frame) => sum + (opusPacketSamples(frame) ?? 0) / 48, 0);

/** Waits until a listener has got nothing for a second. */
async function untilSilent(listener: TestClient): Promise<void> {
  for (let before = -1; before < listener.frames.length;) {
    before = listener.frames.length;
    await sleep(1000);
  }
}

/** Returns the messages that slow a client down or end its connection. */
const complaintsOf = ({ messages }: TestClient) =>
  messages.filter(({ type }) => type === 'flow' || type === 'error');

/** Lets ffmpeg send its pages of a second as fast as they are played. */
async function speakByFfmpeg(room: string) {
  const listener = await used.enter(`${room} listener`, { room, audio: 'opus' });
  const speaker = await used.enter(`${room} speaker`, { room, audio: 'ogg_opus' });
  const pauses = watchPauses(listener);
  const source = ['-f', 'lavfi', '-i', `sine=frequency=700:duration=${SECONDS}`];
  const words = ['-v', 'error', '-re', ...source, '-c:a', 'libopus', '-f', 'ogg', '-'];
  const ffmpeg = spawn('ffmpeg', words, { stdio: ['ignore', 'pipe', 'inherit'] });
  ffmpeg.stdout.on('data', (bytes: Buffer) => speaker.sendAudio(bytes));
  const [code] = (await once(ffmpeg, 'exit')) as [number];
  expect(code).toBe(0);
  await untilSilent(listener);
  return { heardMs: heardMs(listener), pauses: pauses(), complaints: complaintsOf(speaker) };
}

test('ffmpeg -re … -f ogg -: its pages of a second are heard whole, and it is not told to wait', async () => {
  const heard = await undisturbed((attempt) => speakByFfmpeg(`room ${attempt}`));
  expect(heard.heardMs).toBeGreaterThanOrEqual(SECONDS * 1000);
  expect(heard.heardMs).toBeLessThanOrEqual(SECONDS * 1000 + 40);
  expect(heard.complaints).toEqual([]);
  // One at most, at the beginning, while the delay grows to the pieces of the sender.
  expect(heard.pauses.filter((atMs) => atMs >= 3000)).toEqual([]);
  expect(heard.pauses.length).toBeLessThanOrEqual(1);
});

test('MediaRecorder with a timeslice of 1000: heard whole, and it is not told to wait', async () => {
  const listener = await used.enter('listener', { audio: 'opus' });
  const { sound } = await spokenTrack({ words: 8, pauseMs: 300 });
  const microphone = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 } as const;
  const { url, apiKey } = used.gateway;
  const browser = used.keep(await TestBrowser.open(url, sampleMessages(microphone, sound)));
  const address = new URL('/ws', url.replace('http', 'ws'));
  const query = { room: 'a', peer: 'recorder', api_key: apiKey, audio: 'webm_opus' };
  address.search = new URLSearchParams(query).toString();
  const recorded = await browser.page.evaluate(
    async ([to, seconds]) => {
      const socket = new WebSocket(to);
      const told: string[] = [];
      const joined = new Promise<void>((resolve) => {
        socket.addEventListener('message', ({ data }) => {
          if (typeof data !== 'string') return;
          const { type } = JSON.parse(data) as { type: string };
          if (type === 'joined') resolve();
          if (type === 'flow' || type === 'error') told.push(data);
        });
      });
      await joined;
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      const recorder = new MediaRecorder(stream);
      const pieces: Blob[] = [];
      recorder.ondataavailable = ({ data }) => {
        pieces.push(data);
        socket.send(data);
      };
      const stopped = new Promise((resolve) => (recorder.onstop = resolve));
      recorder.start(1000);
      setTimeout(() => recorder.stop(), 1000 * seconds);
      await stopped;
      const bytes = Array.from(new Uint8Array(await new Blob(pieces).arrayBuffer()));
      return { pieces: pieces.length, bytes, told, isOpen: socket.readyState === 1 };
    },
    [address.href, SECONDS] as const,
  );
  expect(recorded).toMatchObject({ told: [], isOpen: true });
  // A busy browser may join pieces.
  expect(recorded.pieces).toBeGreaterThanOrEqual(SECONDS / 2);
  const sent: Buffer[] = [];
  new WebmReader((packet) => sent.push(packet)).push(Buffer.from(recorded.bytes));
  await eventually('the end is heard', () => listener.frames.at(-1)?.equals(sent.at(-1)!) === true);
  // Silence before the first word goes to nobody, and that word begins in a mix; from its end on
  // each packet is heard once, as it was sent.
  const orders = listener.frames.map((frame) => sent.findIndex((packet) => packet.equals(frame)));
  const asSent = orders.slice(orders.findIndex((order) => order >= 0));
  expect(asSent).toEqual(sent.map((_, order) => order).slice(-asSent.length));
  expect(asSent.length).toBeGreaterThan(sent.length / 2);
});
