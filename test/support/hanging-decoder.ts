import { parentPort } from 'node:worker_threads';
import type { DecoderAnswer, DecoderOrder } from '../../src/audio/decoding/decoder-thread.ts';

/**
 * A decoder thread that hangs over MP3, crashes over frames of nothing, answers AAC with as many samples as bytes have come with the first
 * frame, and everything else with one sample; `rateHz` is 8000, and one more for each head that it was given.
 */
const port = parentPort;
if (!port) throw new Error('This is the program of a worker thread.');
let heads = 0;
port.on('message', (order: DecoderOrder) => {
  if (order.order === 'close') return;
  if (order.frames.length === 0) throw new Error('nothing to decode');
  // eslint-disable-next-line no-empty
  while (order.codec === 'mp3') {}
  if (order.head) heads += 1;
  const answer: DecoderAnswer = {
    id: order.id,
    samples: new Float32Array(order.codec === 'aac' ? order.frames[0]!.buffer.byteLength : 1),
    rateHz: 8000 + heads,
    faults: 0,
  };
  port.postMessage(answer);
});
port.postMessage('ready');
