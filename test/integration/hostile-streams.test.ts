import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { collidingMessages } from '../../bench/hostile/colliding-messages.ts';
import type { TestClient } from '../support/client.ts';
import { oggOpus, webmOpus } from '../support/containers.ts';
import { readFixture } from '../support/fixtures.ts';
import { eventually } from '../support/gateway.ts';
import { mp4Of } from '../support/mp4.ts';
import { slownessOfMachine } from '../support/slowness.ts';
import { opusTone, play } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Streams that are made to cost as much as they can, while two peers of another room talk. */

const { connect, enter } = useGateway();

const split = (bytes: Buffer, length: number): Buffer[] =>
  Array.from({ length: Math.ceil(bytes.length / length) }, (_, i) =>
    bytes.subarray(i * length, (i + 1) * length),
  );
const ofOneByte = (bytes: Buffer): Buffer[] => split(bytes, 1);
const repeated = (bytes: Buffer, count: number): Buffer =>
  Buffer.concat(Array.from({ length: count }, () => bytes));

const PACKET = Buffer.from('f8fffe', 'hex');
/** An element (`Void`) of 240 KB. */
const LONG_ELEMENT = Buffer.from('ec1003a980', 'hex');
/** A `Cluster` of 2^47 bytes. */
const ENDLESS_CLUSTER = Buffer.from('1f43b67501800000000000', 'hex');
const FIRST_PAGE = Buffer.from('4f6767530002', 'hex');

/** Name, format, messages, and the time between two of them, ms: without one all are sent at once. */
const STREAMS: [string, string, () => Buffer[], everyMs?: number][] = [
  [
    'MP4 that announces 65 million samples in 64 KB',
    'mp4_aac',
    () => {
      const run = () => ({ count: 16_384, sampleBytes: 0, isListed: false });
      return split(mp4Of(Array.from({ length: 4000 }, run), 100), 60_000);
    },
  ],
  [
    'a FLAC frame of 240 KB, the end of it byte by byte',
    'flac',
    () => {
      const begun = readFixture('speech.flac').subarray(0, 9000);
      const held = split(Buffer.alloc(240_000, 7), 60_000);
      return [begun, ...held, ...ofOneByte(Buffer.alloc(5000, 7))];
    },
  ],
  [
    'a WebM element of 240 KB, the end of it byte by byte',
    'webm_opus',
    () => {
      const held = split(Buffer.alloc(230_000), 60_000);
      return [...webmOpus([PACKET], 20), LONG_ELEMENT, ...held, ...ofOneByte(Buffer.alloc(5000))];
    },
  ],
  [
    'WebM clusters that never end',
    'webm_opus',
    () => [...webmOpus([PACKET], 20), ...split(repeated(ENDLESS_CLUSTER, 20_000), 60_000)],
  ],
  [
    'Ogg recordings that begin with every message',
    'ogg_opus',
    () => [...oggOpus([PACKET], 20), ...split(repeated(FIRST_PAGE, 5000), FIRST_PAGE.length)],
  ],
  [
    'FLAC that begins with every message',
    'flac',
    () => split(repeated(Buffer.from('fLaC80000000'), 5000), 4),
  ],
  // The detector reads nothing before it knows a pace.
  ['bytes whose hashes collided in the detector of formats once', 'auto', collidingMessages, 5],
];

/** Codes with which a stream may be refused, whatever it is told first. */
const REFUSALS = ['unsupported_audio', 'audio_rate_exceeded', 'rate_limited'];

const faultsOf = ({ messages }: TestClient): string[] =>
  messages.flatMap((message) => (message.type === 'error' ? [message.code] : []));

/** Longest time for which the gateway may serve nobody else, ms of CPU of the reference machine: three times what it takes. */
const MAX_BUSY_MS = 100;

/** CPU time of this thread, in which the gateway runs, ms: other programs on the machine do not lengthen it. */
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/** Measures the longest time for which the event loop is busy without a turn of its timers, ms of CPU. */
function watchEventLoop(): () => number {
  let [lastMs, longestMs] = [cpuMs(), 0];
  const turn = () => {
    const nowMs = cpuMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  };
  const timer = setInterval(turn, 1);
  onTestFinished(() => clearInterval(timer));
  return () => {
    turn();
    return longestMs;
  };
}

test.each(STREAMS)('%s: others hear and are answered', async (_name, audio, make, everyMs) => {
  const [ada, bob] = [await enter('ada', { room: 'b' }), await enter('bob', { room: 'b' })];
  const messages = make();
  const attacker = await connect({ peer: 'eve', room: 'a', audio });
  await attacker.next('joined');
  const tone = await opusTone(1000, 0.5, 1000);
  const talk = play(ada, tone);
  for (const message of messages.slice(0, -1)) {
    attacker.sendAudio(message);
    if (everyMs) await sleep(everyMs);
  }
  const [askedMs, longestBusy] = [cpuMs(), watchEventLoop()];
  attacker.sendAudio(messages.at(-1)!);
  await bob.ask({ type: 'configure', volume: {} }, 'configured');
  const answeredAfterMs = cpuMs() - askedMs;
  await talk;
  await eventually('every frame', () => bob.frames.length === tone.length);
  for (const code of faultsOf(attacker)) expect(REFUSALS).toContain(code);
  // All has been read, or the client is out.
  const isOver = attacker.closed.then(() => 'out');
  const left = attacker.ask({ type: 'leave' }, 'left').then(() => 'read');
  expect(await Promise.race([isOver, left])).toBeOneOf(['out', 'read']);
  const busyMs = longestBusy();
  // Measuring takes both cores: only if it matters.
  const isFast = Math.max(busyMs, answeredAfterMs) < MAX_BUSY_MS;
  const mostBusyMs = MAX_BUSY_MS * (isFast ? 1 : await slownessOfMachine());
  expect(busyMs).toBeLessThan(mostBusyMs);
  expect(answeredAfterMs).toBeLessThan(mostBusyMs);
});
