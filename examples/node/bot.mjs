/**
 * A bot that answers what it hears: it waits until the others pause, and says it again.
 *
 *     node bot.mjs URL KEY [ROOM [NAME]]
 */
import { enterRoom, openPace } from './room.mjs';

const [url = '', apiKey = '', room = 'kitchen', peer = 'parrot'] = process.argv.slice(2);
if (!apiKey) throw new Error('Usage: node bot.mjs URL KEY [ROOM [NAME]]');

const RATE_HZ = 16_000;
const FRAME_MS = 20;
const FRAME_BYTES = (2 * RATE_HZ * FRAME_MS) / 1000;
/** Samples from this on are taken for speech: 1 % of full scale. */
const LOUD = 327;
const PAUSE_MS = 600;
const LONGEST_ANSWER_FRAMES = (30 * 1000) / FRAME_MS;

/** @type {Uint8Array[]} */
let heard = [];
/** @type {NodeJS.Timeout | undefined} */
let pause;
let said = Promise.resolve();

const place = enterRoom(
  { url, apiKey, room, peer, audio: `pcm_s16le;rate=${RATE_HZ};channels=1` },
  {
    onSound: listen,
    onMessage: ({ type, message, peer: other }) => {
      if (type === 'joined') console.log(`In the room ${room}. Say something.`);
      if (type === 'peer_joined') console.log(`${other} came.`);
      if (type === 'error') console.log(message);
    },
    onEnd: (reason) => {
      console.error(reason);
      process.exit(1);
    },
  },
);

/** Collects speech. The gateway sends nothing while nobody speaks, so a timer finds its end. */
function listen(/** @type {Uint8Array} */ frame) {
  const samples = new Int16Array(frame.buffer, frame.byteOffset, frame.length / 2);
  const isLoud = samples.some((sample) => Math.abs(sample) > LOUD);
  if ((isLoud || heard.length > 0) && heard.length < LONGEST_ANSWER_FRAMES) heard.push(frame);
  if (!isLoud) return;
  clearTimeout(pause);
  pause = setTimeout(answer, PAUSE_MS);
}

/** Says what was heard, after what it may still be saying. */
function answer() {
  const words = Buffer.concat(heard);
  heard = [];
  said = said.then(() => say(words));
}

/** Sends a frame every 20 ms: the gateway throws away what comes faster than it is played. */
async function say(/** @type {Buffer<ArrayBuffer>} */ words) {
  console.log(`Saying ${((words.length / FRAME_BYTES) * FRAME_MS) / 1000} s again.`);
  const due = openPace(FRAME_MS);
  for (let at = 0; at < words.length; at += FRAME_BYTES) {
    await due();
    place.send(words.subarray(at, at + FRAME_BYTES));
  }
}

process.once('SIGINT', () => void place.leave().then(() => process.exit()));
