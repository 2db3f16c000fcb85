import type { Codecs } from '../../src/audio/codecs.ts';
import { FRAME_SAMPLES } from '../../src/audio/format.ts';
import type { HeardPiece } from './heard-words.ts';
import { type Arrival, joinAll } from './simulated-room.ts';

/**
 * Decodes the packets that arrived with libopus alone: lost ones from the copies in later ones, and without a
 * clock.
 */
export async function decodeLossy(codecs: Codecs, came: Arrival[]): Promise<HeardPiece[]> {
  const decoder = await codecs.opus.createDecoder();
  const parts: Float32Array[] = [];
  let next = came[0]!.packet.sequenceNumber;
  for (const { packet } of came) {
    const lost = packet.sequenceNumber - next;
    if (lost > 1) parts.push(decoder.conceal((lost - 1) * FRAME_SAMPLES).slice());
    if (lost > 0) parts.push(decoder.recover(packet.payload, FRAME_SAMPLES).slice());
    parts.push(decoder.decode(packet.payload).slice());
    next = packet.sequenceNumber + 1;
  }
  decoder.close();
  return [{ fromSample: 0, sound: joinAll(parts) }];
}
