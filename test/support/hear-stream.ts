import type { Codecs } from '../../src/audio/codecs.ts';
import type { KnownFormat, SampleFormat } from '../../src/audio/format.ts';
import { createIngest } from '../../src/audio/ingest/create-ingest.ts';
import { SoundBudget } from '../../src/audio/ingest/sound-budget.ts';

/** Time without anything new after which all has come out, ms; on a busy machine the last few packets may come later. */
const QUIET_MS = 30;
const MAX_WAIT_MS = 10_000;
/** Number of packets to wait for in a stream that is to be refused: the wait ends with the fault. */
export const UNTIL_REFUSED = Infinity;

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Feeds messages to an ingest, one each 10 ms by the clock that it is told, and returns its packets.
 * @param leastPackets waited for, unless a fault comes: what is decoded in a thread comes out later
 */
export async function hearStream(
  codecs: Codecs,
  codec: Exclude<KnownFormat, SampleFormat>['codec'],
  messages: Buffer[],
  leastPackets: number,
) {
  const packets: Buffer[] = [];
  const faults: unknown[] = [];
  const inside: SampleFormat[] = [];
  const ingest = await createIngest(
    { codec },
    codecs,
    { sink: (packet) => packets.push(packet), sound: new SoundBudget() },
    {
      onFault: (fault) => faults.push(fault),
      onInside: (format) => inside.push(format),
    },
  );
  for (const [i, message] of messages.entries()) {
    ingest.push(message, i * 10);
    // Encoders open asynchronously.
    if (i < 3) await wait(5);
  }
  const endsAtMs = performance.now() + MAX_WAIT_MS;
  const isAll = () => packets.length >= leastPackets || faults.length > 0;
  while (!isAll() && performance.now() < endsAtMs) await wait(5);
  let before = -1;
  while (packets.length > before) {
    before = packets.length;
    await wait(QUIET_MS);
  }
  ingest.close();
  return { packets, faults, inside };
}
