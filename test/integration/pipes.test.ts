import type { Producer, Router } from 'mediasoup/types';
import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { readSettings } from '../../config/settings.ts';
import { MediaWorker } from '../../src/media/media-worker.ts';
import { Pipe } from '../../src/media/pipe.ts';
import { PlainLeg } from '../../src/media/plain-leg.ts';
import { parseRtpPacket, type RtpPacket, writeRtpPacket } from '../../src/rtp/packet.ts';
import { Packetizer } from '../../src/rtp/packetizer.ts';
import { eventually, freeRtcPort, silentLog } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { cleanUps } = useStack();

async function startWorker(index: number, rtcPort: number): Promise<MediaWorker> {
  const settings = {
    mediaWorkers: 2,
    workerBin: readSettings({}).MEDIASOUP_WORKER_BIN,
    rtcAddresses: () => [{ ip: '127.0.0.1', takesTcp: true, isSet: true }],
    rtcPort,
    routerMaxConsumers: 1,
    timings: DEFAULT_TIMINGS.mediaWorkers,
  };
  const worker = await MediaWorker.start(index, settings, silentLog);
  cleanUps.push(() => worker.close());
  return worker;
}

const transportsOf = async (router: Router) => (await router.dump()).transportIds.length;

/** A speaker on one media worker, and a listener that hears it on another by way of a pipe. */
async function openPipe() {
  const rtcPort = freeRtcPort();
  const [here, there] = await Promise.all([startWorker(0, rtcPort), startWorker(1, rtcPort)]);
  const [near, far] = await Promise.all([here.openRouter(), there.openRouter()]);
  const pipe = await Pipe.open(near, far);
  const published: Producer[] = [];
  const nearLeg = await PlainLeg.open(near, async (producer) => {
    published.push(producer);
    const piped = await pipe.send(producer);
    if (piped) published.push(piped);
  });
  const farLeg = await PlainLeg.open(far, async () => {});
  cleanUps.push(
    () => nearLeg.close(),
    () => farLeg.close(),
  );
  const speaker = await nearLeg.produce();
  const [producer, piped] = published;
  if (!producer || !piped) throw new Error('it was not piped');
  const heard: RtpPacket[] = [];
  await farLeg.consume(speaker.id, far.rtpCapabilities, (datagram, levelExtensionId) => {
    const packet = parseRtpPacket(datagram, levelExtensionId);
    if (packet) heard.push(packet);
  });
  const packetizer = new Packetizer();
  const say = (payload: string) => {
    const packet = packetizer.packetize(Buffer.from(payload), 960, 23, 0);
    speaker.send(writeRtpPacket(packet, speaker));
  };
  return { there, near, far, speaker, producer, piped, heard, say };
}

test('packets pass a pipe to another media worker as they are, with their level', async () => {
  const { heard, say } = await openPipe();
  const said = Array.from({ length: 100 }, (_, index) => `packet ${index}`);
  for (const payload of said) say(payload);
  await eventually('all are heard', () => heard.length === said.length);
  expect(heard.map(({ payload }) => payload.toString())).toEqual(said);
  expect(new Set(heard.map(({ audioLevel }) => audioLevel))).toEqual(new Set([23]));
});

test('a piped producer is paused, resumed and closed with the original, and no transport is left', async () => {
  const { near, far, speaker, producer, piped, heard, say } = await openPipe();
  await producer.pause();
  await eventually('it is paused there', () => piped.paused);
  say('while paused');
  // RTP and commands reach the media worker by different sockets.
  await eventually('it has arrived', async () => {
    const [stream] = await producer.getStats();
    return stream?.packetCount === 1;
  });
  await producer.resume();
  await eventually('it is resumed there', () => !piped.paused);
  say('after');
  await eventually('it is heard', () => heard.length === 1);
  expect(heard[0]?.payload.toString()).toBe('after');
  speaker.close();
  await eventually('it is closed there', () => piped.closed);
  expect(await transportsOf(near)).toBe(2);
  far.close();
  await eventually('only the plain leg is left', async () => (await transportsOf(near)) === 1);
});

test('a media worker that hangs while a pause is on its way takes the pipe with it, and nothing else', async () => {
  const { there, near, producer, piped } = await openPipe();
  process.kill(there.pid, 'SIGSTOP');
  await producer.pause();
  await there.gone;
  expect(piped.closed).toBe(true);
  expect(producer.closed).toBe(false);
  await eventually('only the plain leg is left', async () => (await transportsOf(near)) === 1);
});
