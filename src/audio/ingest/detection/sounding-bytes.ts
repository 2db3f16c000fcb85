import { bytesToNext } from '../../samples.ts';
import type { TimedMessage } from './pace.ts';
import { isDigitalSilence } from './silence.ts';

/** Maximum number of weighed bytes: more do not make the answer surer, and take longer. */
export const MAX_WEIGHED_BYTES = 8192;
/** Common multiple of the frame sizes of all sample formats, bytes. */
const WHOLE_BYTES = 24;

/**
 * Returns the bytes from which a format is detected: without silent messages, and beginning at a multiple of {@link WHOLE_BYTES} of the
 * stream.
 */
export function soundOf(arrivals: readonly TimedMessage[], startsAtBytes: number): Buffer {
  // The remainder of a silent message is kept, so that later samples stay aligned.
  const sounding = arrivals.map(({ message }) =>
    isDigitalSilence(message) ? message.subarray(0, message.length % WHOLE_BYTES) : message,
  );
  return fromFirstSound(Buffer.concat(sounding).subarray(bytesToNext(WHOLE_BYTES, startsAtBytes)));
}

/**
 * Returns bytes without the silence before the first sound, because an abrupt start is unpredictable and its cost would outweigh the rest;
 * and without pauses of digital silence, which say nothing about the format.
 */
function fromFirstSound(bytes: Buffer): Buffer {
  const silentBytes = bytes.findIndex((byte) => byte !== bytes[0]);
  if (silentBytes === -1) return Buffer.alloc(0);
  const parts: Buffer[] = [];
  let [weighedBytes, isPausing] = [0, false];
  for (
    let at = silentBytes - (silentBytes % WHOLE_BYTES);
    at < bytes.length && weighedBytes < MAX_WEIGHED_BYTES;
    at += WHOLE_BYTES
  ) {
    const part = bytes.subarray(at, at + WHOLE_BYTES);
    const wasPausing = isPausing;
    isPausing = isDigitalSilence(part);
    if (isPausing && wasPausing) continue;
    parts.push(part);
    weighedBytes += part.length;
  }
  return Buffer.concat(parts);
}
