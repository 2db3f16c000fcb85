import { parentPort, workerData } from 'node:worker_threads';
import { loadCodecs } from '../codecs.ts';
import type { CodecSettings } from '../opus-codec.ts';
import {
  BatchWriter,
  type MixEvent,
  type MixBatch,
  type MixCommand,
  type RoomId,
  sliceReader,
} from './mix-batch.ts';
import { LocalMixEngine } from './local-mix-engine.ts';

/** Program of a mixing thread: executes commands message by message, and answers each message with one of its own. */

const port = parentPort;
if (!port) throw new Error('This is the program of a worker thread.');
const codecs = await loadCodecs(workerData as CodecSettings);
const rooms = new Map<RoomId, LocalMixEngine>();
const answers = new BatchWriter<MixEvent>();

const openRoom = (room: RoomId, limits: { minMs: number; maxMs: number }) =>
  new LocalMixEngine(
    codecs,
    limits,
    {
      mixed: (name, format, frame) =>
        answers.add({ answer: 'mixed', room, name, format, frame: answers.slice(frame) }),
      passed: (speaker, packet, restSamples) =>
        answers.add({
          answer: 'passed',
          room,
          speaker,
          packet: answers.slice(packet),
          restSamples,
        }),
      concealed: (speaker, samples) => answers.add({ answer: 'concealed', room, speaker, samples }),
      paused: (speaker, why) => answers.add({ answer: 'paused', room, speaker, why }),
    },
    (fault) => answers.add({ answer: 'fault', fault }),
  );

function execute(item: MixCommand, read: ReturnType<typeof sliceReader>): void {
  if (item.command === 'set complexity') {
    codecs.opus.setComplexity(item.complexity);
    return;
  }
  const room = rooms.get(item.room);
  switch (item.command) {
    case 'open':
      rooms.set(item.room, openRoom(item.room, item.limits));
      break;
    case 'apply':
      room?.apply({
        ...item.plan,
        added: item.plan.added.map((speaker) => ({ ...speaker, recent: speaker.recent.map(read) })),
      });
      break;
    case 'insert':
      room?.insert(item.speaker, { ...item.packet, payload: read(item.packet.payload) }, item.atMs);
      break;
    case 'tick':
      if (room) {
        const report = room.tick(item.nowMs, item.movedMs, item.isSkipped);
        answers.add({ answer: 'ticked', room: item.room, report });
      }
      break;
    case 'close':
      room?.close();
      rooms.delete(item.room);
      break;
  }
}

port.on('message', (batch: MixBatch<MixCommand>) => {
  const read = sliceReader(batch);
  for (const item of batch.items) {
    try {
      execute(item, read);
    } catch (fault) {
      // One room's fault must not end the others in this thread.
      answers.add({ answer: 'fault', fault });
    }
  }
  const answer = answers.take();
  port.postMessage(answer, [answer.bytes.buffer]);
});
port.postMessage('ready');
