import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { WebmReader } from '../../src/audio/ingest/webm-reader.ts';
import { opusPacketSamples } from '../../src/audio/opus-packet.ts';
import { TestBrowser } from '../support/browser.ts';
import type { TestClient } from '../support/client.ts';
import { lagsOf } from '../support/lag.ts';
import { undisturbed, untilHeard } from '../support/listening.ts';
import { decodeOpus, energyOf, sampleMessages } from '../support/sound.ts';
import { spokenTrack } from '../support/speech.ts';
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

test('ffmpeg -re … -f ogg -: its pages of a second are heard whole, and it is not told to wait', async () => {
  const listener = await used.enter('listener', { audio: 'opus' });
  const speaker = await used.enter('speaker', { audio: 'ogg_opus' });
  const source = ['-f', 'lavfi', '-i', `sine=frequency=700:duration=${SECONDS}`];
  const words = ['-v', 'error', '-re', ...source, '-c:a', 'libopus', '-f', 'ogg', '-'];
  const ffmpeg = spawn('ffmpeg', words, { stdio: ['ignore', 'pipe', 'inherit'] });
  ffmpeg.stdout.on('data', (bytes: Buffer) => speaker.sendAudio(bytes));
  const [code] = (await once(ffmpeg, 'exit')) as [number];
  expect(code).toBe(0);
  await untilSilent(listener);
  expect(heardMs(listener)).toBeGreaterThanOrEqual(SECONDS * 1000);
  expect(heardMs(listener)).toBeLessThanOrEqual(SECONDS * 1000 + 40);
  expect(complaintsOf(speaker)).toEqual([]);
});

/** Sound of a recorder, and what a listener heard of it. */
type Recorded = { sent: Buffer[]; frames: Buffer[]; pieces: number };

/** Length of Opus packets of Chromium's MediaRecorder, by which its pieces differ, ms. */
const RECORDED_PACKET_MS = 60;

/** Records the microphone of a new browser into a new room. @param noteLate is told by how much the browser was late with a piece, ms */
async function record(
  room: string,
  microphone: Buffer[],
  noteLate: (lateMs: number) => void,
): Promise<Recorded> {
  const listener = await used.enter(`listener of ${room}`, { room, audio: 'opus' });
  const { url, apiKey } = used.gateway;
  const browser = used.keep(await TestBrowser.open(url, microphone));
  const address = new URL('/ws', url.replace('http', 'ws'));
  const query = { room, peer: `recorder of ${room}`, api_key: apiKey, audio: 'webm_opus' };
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
      const sentAtMs: number[] = [];
      recorder.ondataavailable = ({ data }) => {
        pieces.push(data);
        sentAtMs.push(performance.now());
        socket.send(data);
      };
      const stopped = new Promise((resolve) => (recorder.onstop = resolve));
      recorder.start(1000);
      setTimeout(() => recorder.stop(), 1000 * seconds);
      await stopped;
      const bytes = Array.from(new Uint8Array(await new Blob(pieces).arrayBuffer()));
      return { sentAtMs, bytes, told, isOpen: socket.readyState === 1 };
    },
    [address.href, SECONDS] as const,
  );
  expect(recorded).toMatchObject({ told: [], isOpen: true });
  const { sentAtMs, bytes } = recorded;
  const waits = sentAtMs.slice(1).map((atMs, index) => atMs - sentAtMs[index]!);
  noteLate(Math.max(0, ...waits.map((waitMs) => waitMs - 1000 - RECORDED_PACKET_MS)));
  const sent: Buffer[] = [];
  new WebmReader((packet) => sent.push(packet)).push(Buffer.from(bytes));
  const { frames } = listener;
  await untilHeard('the end is heard', () => frames.at(-1)?.equals(sent.at(-1)!) === true);
  return { sent, frames: [...frames], pieces: sentAtMs.length };
}

/** Level below which sound is no speech: 14 dB below that of a word. */
const SPEECH_LEVEL = 0.01;
const BLOCK_SAMPLES = 960;
/** Difference of lags, samples, that a listener hears as something made up. */
const LEAST_STEP = 100;
/** Time after the mix in which a decoder comes to hear the packets as their encoder meant them, samples. */
const SETTLING_SAMPLES = 4800;

test('MediaRecorder with a timeslice of 1000: no sample lost or repeated, and it is not told to wait', async () => {
  const { sound } = await spokenTrack({ words: 8, pauseMs: 300 });
  const microphone = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 } as const;
  const messages = sampleMessages(microphone, sound);
  const { sent, frames, pieces } = await undisturbed((number, noteLate) =>
    record(`attempt ${number}`, messages, noteLate),
  );
  // A busy browser may join pieces.
  expect(pieces).toBeGreaterThanOrEqual(SECONDS / 2);
  // Silence before the first word goes to nobody, and that word begins in a mix; from its end on
  // each packet is heard once, as it was sent.
  const orders = frames.map((frame) => sent.findIndex((packet) => packet.equals(frame)));
  const mixed = orders.findIndex((order) => order >= 0);
  const asSent = orders.slice(mixed);
  expect(asSent).toEqual(sent.map((_, order) => order).slice(-asSent.length));
  expect(asSent.length).toBeGreaterThan(sent.length / 2);
  // Both end with the same packet.
  const [said, heard] = [await decodeOpus(sent), await decodeOpus(frames)];
  expect(heard.length).toBeLessThanOrEqual(said.length);
  const before = said.subarray(0, said.length - heard.length);
  for (let at = 0; at + BLOCK_SAMPLES <= before.length; at += BLOCK_SAMPLES) {
    const block = before.subarray(at, at + BLOCK_SAMPLES);
    expect(Math.sqrt(energyOf(block) / BLOCK_SAMPLES)).toBeLessThan(SPEECH_LEVEL);
  }
  const mixedSamples = (await decodeOpus(frames.slice(0, mixed))).length;
  const lags = lagsOf(said.subarray(before.length), heard, SPEECH_LEVEL);
  expect(lags.length).toBeGreaterThan(0);
  // The word that is mixed may have one pause, while the delay grows; its end is another step.
  const steps = lags.filter(({ lag }, i) => i > 0 && Math.abs(lag - lags[i - 1]!.lag) > LEAST_STEP);
  expect(steps.length).toBeLessThanOrEqual(2);
  for (const { at, lag, likeness } of lags) {
    const isMixed = at < mixedSamples + SETTLING_SAMPLES;
    expect(isMixed ? 0 : lag).toBe(0);
    expect(likeness).toBeGreaterThan(isMixed ? 0.8 : 0.99);
  }
});
