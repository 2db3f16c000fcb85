/**
 * Carries sound between a room and a pipe: samples of 16 bits, 48 kHz, one channel.
 *
 *     node pipe.mjs speak URL KEY [ROOM [NAME]]    # says what comes in
 *     node pipe.mjs hear URL KEY [ROOM [NAME]]     # gives out what the others say, and silence between
 */
import { enterRoom, openPace } from './room.mjs';

const [direction = '', url = '', apiKey = '', room = 'kitchen', peer = `pipe ${process.pid}`] =
  process.argv.slice(2);
if (!apiKey || !['speak', 'hear'].includes(direction)) {
  throw new Error('Usage: node pipe.mjs speak|hear URL KEY [ROOM [NAME]]');
}

const FRAME_MS = 20;
const FRAME_BYTES = 1920;
/** Frames that come late by less than this are waited for, ms; then silence takes their place. */
const LATE_MS = 200;
/** Time to stay after the last frame: the gateway drops what it has not played yet of a peer that leaves, ms. */
const LAST_MS = 1000;

/** @type {(joined: void) => void} */
let onJoined;
const joined = new Promise((resolve) => (onJoined = resolve));
let writtenMs = 0;
let startMs = 0;

const place = enterRoom(
  { url, apiKey, room, peer, audio: 'pcm_s16le;rate=48000;channels=1' },
  {
    onSound: (frame) => direction === 'hear' && write(frame),
    onMessage: ({ type, message }) => {
      if (type === 'joined') onJoined();
      if (type === 'error') console.error(message);
    },
    onEnd: (reason) => {
      console.error(reason);
      process.exit(1);
    },
  },
);
process.once('SIGINT', () => void end());

await joined;
if (direction === 'speak') await speak();
else hear();

/** Reads the pipe in real time; a program that writes faster waits. */
async function speak() {
  const due = openPace(FRAME_MS);
  let rest = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    rest = Buffer.concat([rest, chunk]);
    for (; rest.length >= FRAME_BYTES; rest = rest.subarray(FRAME_BYTES)) {
      await due();
      place.send(rest.subarray(0, FRAME_BYTES));
    }
  }
  await due();
  place.send(Buffer.concat([rest, Buffer.alloc(FRAME_BYTES - rest.length)]));
  await new Promise((resolve) => setTimeout(resolve, LAST_MS));
  await end();
}

/** Fills pauses, in which the gateway sends nothing, so that what comes out is as long as what happened. */
function hear() {
  startMs = performance.now();
  setInterval(() => {
    const missingMs = performance.now() - startMs - writtenMs;
    const frames = Math.floor((missingMs - LATE_MS) / FRAME_MS);
    if (frames > 0) write(new Uint8Array(frames * FRAME_BYTES));
  }, LATE_MS);
  process.stdout.on('error', () => void end()); // the reader has gone
}

function write(/** @type {Uint8Array} */ sound) {
  writtenMs += (sound.length / FRAME_BYTES) * FRAME_MS;
  process.stdout.write(sound);
}

async function end() {
  await place.leave();
  process.exit();
}
