import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { oggOpus, webmOpus } from '../support/containers.ts';
import { lagsOf, siren } from '../support/lag.ts';
import { undisturbed, untilHeard } from '../support/listening.ts';
import { watchPauses } from '../support/pauses.ts';
import { decodeOpus, opusTone, sampleMessages } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

const { enter } = useGateway();

const SECONDS = 5;
const PACKETS_PER_S = 50;
/** Maximum lag of samples that are heard as Opus, after a resampler and an encoder: 10 ms. */
const MAX_LAG = 480;
/** Minimum likeness of what is heard and what was sent. */
const LEAST_LIKENESS = 0.95;

/** Sends the messages of each piece at once, one piece every `everyMs`, never sooner. */
async function sendPieces(client: TestClient, pieces: Buffer[][], everyMs: number): Promise<void> {
  for (const messages of pieces) {
    for (const message of messages) client.sendAudio(message);
    await sleep(everyMs);
  }
}

function inPieces<T>(items: T[], size: number): T[][] {
  const pieces: T[][] = [];
  for (let at = 0; at < items.length; at += size) pieces.push(items.slice(at, at + size));
  return pieces;
}

const flowOf = ({ messages }: TestClient) => messages.filter(({ type }) => type === 'flow');

test('sound in pieces of a second and of half of one: heard whole, and nobody is told to wait', async () => {
  const tone = await opusTone(700, 0.4, SECONDS * 1000);
  const wide = { codec: 'pcm_f32le', rateHz: 48_000, channels: 1 } as const;
  const samples = sampleMessages(wide, siren(0.4, SECONDS * 1000));
  const seconds = inPieces(samples, PACKETS_PER_S).map((second) =>
    // Messages may have 64 KiB, and be cut anywhere.
    cut(Buffer.concat(second), 60_001),
  );
  const narrow = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 } as const;
  const narrowSamples = sampleMessages(narrow, siren(0.4, SECONDS * 1000, narrow.rateHz));
  const messages = inPieces(narrowSamples, PACKETS_PER_S).map((second) => [Buffer.concat(second)]);
  const pages = oggOpus(tone, 20, { packetsPerPage: PACKETS_PER_S }).map((page) => [page]);
  const clusters = webmOpus(tone, 20, { packetsPerCluster: PACKETS_PER_S }).map((part) => [part]);
  const senders: [string, string, Buffer[][], number][] = [
    ['ogg', 'ogg_opus', pages, 1000],
    ['webm', 'webm_opus', clusters, 1000],
    ['packets', 'opus', inPieces(tone, PACKETS_PER_S), 1000],
    ['halves', 'opus', inPieces(tone, PACKETS_PER_S / 2), 500],
    ['samples', 'pcm_f32le;rate=48000;channels=1', seconds, 1000],
    ['packets detected', 'auto', inPieces(tone, PACKETS_PER_S), 1000],
    ['long pieces detected', 'auto', inPieces(tone, 2 * PACKETS_PER_S), 2001],
    ['samples detected', 'auto', messages, 1000],
  ];
  const hear = async (
    [name, audio, pieces, everyMs]: (typeof senders)[number],
    attempt: number,
  ) => {
    const room = `${name} ${attempt}`;
    const speaker = await enter(`${room} speaker`, { room, audio });
    const listener = await enter(`${room} listener`, { room, audio: 'opus' });
    const pauses = watchPauses(listener);
    await sendPieces(speaker, pieces, everyMs);
    await untilHeard('all is heard', () => listener.frames.length >= tone.length);
    const frames = [...listener.frames];
    return { name, frames, flow: flowOf(speaker), pauses: pauses() };
  };
  // The rate of samples is found by the pace of the first pieces, in which a stall of half a second
  // would count.
  const heard = await undisturbed((number) =>
    Promise.all(senders.map((sender) => hear(sender, number))),
  );
  for (const { name, frames, flow, pauses } of heard) {
    const late = pauses.filter((atMs) => atMs >= 3000);
    expect({ name, frames: frames.length, flow, late }).toEqual({
      name,
      frames: tone.length,
      flow: [],
      late: [],
    });
    expect(pauses.length).toBeLessThanOrEqual(1);
  }
  const [ofSamples, asSent] = [
    heard.filter(({ name }) => name.startsWith('samples')),
    heard.filter(({ name }) => !name.startsWith('samples')),
  ];
  for (const { frames } of asSent) expect(frames.map(hex)).toEqual(tone.map(hex));
  expect(ofSamples).toHaveLength(2);
  for (const { frames } of ofSamples) await expectWhole(frames);
});

const hex = (packet: Uint8Array) => Buffer.from(packet).toString('hex');

/** Expects the siren without a sample lost, repeated or replaced: each stretch has the same lag. */
async function expectWhole(frames: Buffer[]): Promise<void> {
  const lags = lagsOf(siren(0.4, SECONDS * 1000), await decodeOpus(frames));
  expect(lags).toHaveLength(SECONDS * 20);
  const middle = lags[lags.length >> 1]!.lag;
  expect(middle).toBeGreaterThanOrEqual(0);
  expect(middle).toBeLessThanOrEqual(MAX_LAG);
  for (const { lag, likeness } of lags) {
    // A quarter of a sample may count as one.
    expect(Math.abs(lag - middle)).toBeLessThanOrEqual(1);
    expect(likeness).toBeGreaterThan(LEAST_LIKENESS);
  }
}

function cut(bytes: Buffer, mostBytes: number): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += mostBytes)
    parts.push(bytes.subarray(at, at + mostBytes));
  return parts;
}
