import { Socket as UdpSocket } from 'node:dgram';
import { Session as Inspector } from 'node:inspector';
import { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import type { TestClient } from './client.ts';
import { fileIn, filesOnStack, type HandOver, watchHandOvers } from './hand-overs.ts';

/**
 * Follows frames of a legacy Opus client through a gateway: to mediasoup, and down to a listener that hears nobody else. A
 * process of its own, in which the code runs as it is written, but reports what it hands on; writes {@link FramePaths} as JSON.
 */

/** Way of one frame, from the chunk that the socket gives until the frame leaves the gateway: files of `src`. */
export type FramePath = {
  /** Files that call each other, from the socket to where the frame leaves. */
  column: string[];
  /** Hand-overs of the frame until it left, in order. */
  handOvers: readonly HandOver[];
  /** All files of which a function was called until the frame left. */
  entered: string[];
  /** All files of which a function was called after that, until the chunk was handled. */
  enteredAfter: string[];
};
/** Ways of several frames; those down begin where the mixer is called. */
export type FramePaths = { up: FramePath[]; down: FramePath[] };

const FRAME_MS = 20;
/** By then the format is known, and that the client sends evenly. */
const WARM_UP_FRAMES = 75;
/** Number of frames that are followed, one in three. */
const FRAMES = 12;
const EVERY = 3;
/** Minimum number of hand-overs of a whole way: a frame that the gateway has held since an earlier chunk shows only the last ones. */
const MIN_HAND_OVERS = 5;

/** Tells whether this frame left at once: an earlier one that had been held may leave in its place. */
const isWhole = ({ handOvers }: FramePath, end: string): boolean =>
  handOvers.length >= MIN_HAND_OVERS && handOvers.some(({ to }) => to === end);
/** Number of frames after which the measurement is given up. */
const MAX_FRAMES = 300;
/** Time after which a frame is given up: the gateway holds it until it is due. */
const MAX_WAIT_MS = 10 * FRAME_MS;
/** First file on the way of a frame that is not held. */
const FIRST = 'session/turns.ts';

/** Has a method of all objects of a class call `before` first, and what that returns when the method has returned. */
function watchCalls(
  prototype: object,
  method: string,
  before: (argument: unknown) => (() => void) | void,
): void {
  const original = Reflect.get(prototype, method) as (...values: unknown[]) => unknown;
  Reflect.set(prototype, method, function (this: unknown, ...values: unknown[]) {
    const after = before(values[0]);
    const result = original.apply(this, values);
    after?.();
    return result;
  });
}

/** V8's count of calls, begun anew at each look. */
function openCoverage() {
  const inspector = new Inspector();
  inspector.connect();
  inspector.post('Profiler.enable');
  inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  return {
    /** Returns the files of which a function was called since the last look. */
    take: () => {
      const files: string[] = [];
      // Answered at once, within the call.
      inspector.post('Profiler.takePreciseCoverage', (fault, { result }) => {
        if (fault) throw fault;
        for (const { url, functions } of result) {
          const isEntered = functions.some(({ ranges }) => ranges.some(({ count }) => count > 0));
          const file = fileIn(url);
          if (isEntered && file !== undefined) files.push(file);
        }
      });
      return files;
    },
    close: () => inspector.disconnect(),
  };
}

// Modules of `src` are loaded behind this.
const watch = watchHandOvers();
const { TestClient: Client } = await import('./client.ts');
const { openTestGateway } = await import('./gateway.ts');
const { opusTone } = await import('./sound.ts');
const { RoomMixer } = await import('../../src/audio/mixing/room-mixer.ts');

/** Frame that is followed, and its way once it has left the gateway. */
type Followed = { frame: Buffer; path: FramePath | undefined };

/** File from which a call makes a frame leave. */
let lastFile = '';
let followed: Followed | undefined;
let coverage: ReturnType<typeof openCoverage> | undefined;

/** Begins the way of the frame anew, unless it has left. */
function begin(): void {
  if (!followed || followed.path) return;
  coverage?.take();
  watch.follow(followed.frame);
}

/** Notes the way of the frame when it leaves through a method. */
function watchEnd(prototype: object, method: string): void {
  watchCalls(prototype, method, () => {
    const files = filesOnStack();
    const isWay = files[0] === lastFile && files.at(-1) === FIRST;
    if (!followed || followed.path || !isWay) return;
    const entered = coverage?.take() ?? [];
    const { handOvers } = watch;
    watch.follow(undefined);
    // A file that calls itself counts once.
    const column = files.filter((file, i) => file !== files[i - 1]).toReversed();
    followed.path = { column, handOvers, entered, enteredAfter: [] };
  });
}

watchCalls(Socket.prototype, 'emit', (event) => {
  if (!followed || followed.path || event !== 'data') return undefined;
  const begun = followed;
  begin();
  return () => {
    if (begun.path) begun.path.enteredAfter = coverage?.take() ?? [];
  };
});
watchEnd(UdpSocket.prototype, 'send');
watchEnd(Socket.prototype, 'write');

/** Sends frames, and follows those that leave the gateway, from `end`, as soon as they have come: one that comes early waits for its time. */
async function follow(speaker: TestClient, end: string): Promise<FramePath[]> {
  const packets = await opusTone(440, 0.5, 1000);
  const paths: FramePath[] = [];
  lastFile = end;
  for (let i = 0; i < MAX_FRAMES && paths.length < FRAMES; i += 1) {
    // After a delay nothing is made up for: a frame that is ahead of its time would wait.
    await wait(FRAME_MS);
    if (i === WARM_UP_FRAMES) coverage = openCoverage();
    const frame = packets[i % packets.length]!;
    followed = coverage && i % EVERY === 0 ? { frame, path: undefined } : undefined;
    const next = followed;
    speaker.sendAudio(frame);
    if (!next) continue;
    const untilMs = performance.now() + MAX_WAIT_MS;
    for (; !next.path && performance.now() < untilMs;) await nextTurn();
    followed = undefined;
    watch.follow(undefined);
    if (next.path && isWhole(next.path, end)) paths.push(next.path);
  }
  coverage?.close();
  coverage = undefined;
  return paths;
}

Error.stackTraceLimit = 100;
const gateway = await openTestGateway();
const connect = (peer: string, room: string) =>
  Client.connect(gateway.url, { peer, room, api_key: gateway.apiKey });

const browser = await connect('browser', '__lobby__');
await browser.ask({ type: 'join', room: 'up', media: 'webrtc' }, 'joined');
const speaker = await connect('speaker', 'up');
await speaker.next('joined');
const up = await follow(speaker, 'media/plain-leg.ts');

const listener = await connect('listener', 'down');
await listener.next('joined');
await speaker.ask({ type: 'join', room: 'down' }, 'joined');
// The mixer is where the way down begins.
watchCalls(RoomMixer.prototype, 'receive', begin);
const down = await follow(speaker, 'session/send-queue.ts');

for (const client of [browser, speaker, listener]) await client.close();
await gateway.close();
const paths: FramePaths = { up, down };
process.stdout.write(JSON.stringify(paths));
