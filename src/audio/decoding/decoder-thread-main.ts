import { parentPort } from 'node:worker_threads';
import type { DecoderAnswer, DecoderOrder } from './decoder-thread.ts';
import { type LoadedDecoder, openDecoder } from './frame-codecs.ts';

/** Program of the decoder thread: executes commands in order, and answers each `decode` once. */

const port = parentPort;
if (!port) throw new Error('This is the program of a worker thread.');
const decoders = new Map<number, LoadedDecoder>();

async function execute(order: DecoderOrder): Promise<void> {
  const { id } = order;
  if (order.order === 'close') {
    decoders.get(id)?.close();
    decoders.delete(id);
    return;
  }
  const decoder = decoders.get(id) ?? (await openDecoder(order.codec));
  decoders.set(id, decoder);
  if (order.head) await decoder.begin?.(order.head);
  const { samples, rateHz, faults } = await decoder.decode(order.frames);
  const answer: DecoderAnswer = { id, samples, rateHz, faults };
  port?.postMessage(answer, [samples.buffer as ArrayBuffer]);
}

let executed = Promise.resolve();
port.on('message', (order: DecoderOrder) => {
  // A decoder that throws may have corrupted its memory: the thread ends, and another starts
  // without that stream.
  executed = executed.then(() => execute(order));
});
port.postMessage('ready');
