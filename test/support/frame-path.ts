import { Socket as UdpSocket } from 'node:dgram';
import { Session as Inspector } from 'node:inspector';
import { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { TestClient } from './client.ts';
import { openTestGateway } from './gateway.ts';
import { opusTone } from './sound.ts';

/**
 * Follows frames of a legacy Opus client through a gateway: to mediasoup, and down to a listener that hears nobody else. A
 * process of its own, in which the code runs as it is written; writes {@link FramePaths} as JSON.
 */

/** Way of one frame: files of `src`. */
export type FramePath = {
  /** Files that call each other, from the socket to where the frame leaves the gateway. */
  column: string[];
  /** All files of which a function is called. */
  entered: string[];
};
export type FramePaths = { up: FramePath; down: FramePath };

const FRAME_MS = 20;
/** By then the format is known, and that the client sends evenly. */
const WARM_UP_FRAMES = 75;
/** Number of frames that are looked at, one in three. A timer may run beside one of them, not beside all. */
const FRAMES = 12;
const EVERY = 3;
/** Number of frames after which the measurement is given up. */
const MAX_FRAMES = 300;
/** File with which the way of a frame begins that does not wait. */
const FIRST = 'session/turns.ts';

const SRC = new URL('../../src/', import.meta.url).href;
/** The file of `src` that a URL or a line of a stack names. */
const fileIn = (text: string) => /^[\w/-]+\.ts/.exec(text.split(SRC)[1] ?? '')?.[0];

/** Notes the files on the stack whenever a method is called from `from`, the last one first; one that calls itself counts once. */
function watchStack(prototype: object, method: 'send' | 'write', from: string) {
  const columns: string[] = [];
  const original = Reflect.get(prototype, method) as (...values: unknown[]) => unknown;
  Reflect.set(prototype, method, function (this: unknown, ...values: unknown[]) {
    const lines = new Error('here').stack?.split('\n') ?? [];
    const files = lines.flatMap((line) => fileIn(line) ?? []);
    const column = files.filter((file, i) => file !== files[i - 1]).toReversed();
    if (column.at(-1) === from) columns.push(column.join(' '));
    return original.apply(this, values);
  });
  return { columns, end: () => Reflect.set(prototype, method, original) };
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

/** Sends frames, and follows those that leave the gateway as soon as they have come: one that comes early waits for its time. */
async function follow(
  speaker: TestClient,
  { columns, end }: ReturnType<typeof watchStack>,
): Promise<FramePath> {
  const packets = await opusTone(440, 0.5, 1000);
  let coverage: ReturnType<typeof openCoverage> | undefined;
  const entered: string[][] = [];
  for (let i = 0; i < MAX_FRAMES && entered.length < FRAMES; i += 1) {
    // After a delay nothing is made up for: a frame that is ahead of its time would wait.
    await wait(FRAME_MS);
    if (i === WARM_UP_FRAMES) coverage = openCoverage();
    coverage?.take();
    const before = columns.length;
    speaker.sendAudio(packets[i % packets.length]!);
    if (!coverage || i % EVERY > 0) continue;
    while (columns.length === before) await nextTurn();
    const files = coverage.take();
    if (columns.length === before + 1 && columns.at(-1)?.startsWith(FIRST)) entered.push(files);
  }
  coverage?.close();
  end();
  const [first = [], ...others] = entered;
  const atOnce = columns.filter((column) => column.startsWith(FIRST));
  const timesOf = (column: string) => atOnce.filter((each) => each === column).length;
  const [column = ''] = atOnce.toSorted((one, other) => timesOf(other) - timesOf(one));
  return {
    column: column.split(' '),
    entered: first.filter((file) => others.every((files) => files.includes(file))),
  };
}

Error.stackTraceLimit = 100;
const gateway = await openTestGateway();
const connect = (peer: string, room: string) =>
  TestClient.connect(gateway.url, { peer, room, api_key: gateway.apiKey });

const browser = await connect('browser', '__lobby__');
await browser.ask({ type: 'join', room: 'up', media: 'webrtc' }, 'joined');
const speaker = await connect('speaker', 'up');
await speaker.next('joined');
const up = await follow(speaker, watchStack(UdpSocket.prototype, 'send', 'media/plain-leg.ts'));

const listener = await connect('listener', 'down');
await listener.next('joined');
await speaker.ask({ type: 'join', room: 'down' }, 'joined');
const down = await follow(speaker, watchStack(Socket.prototype, 'write', 'session/send-queue.ts'));

for (const client of [browser, speaker, listener]) await client.close();
await gateway.close();
const paths: FramePaths = { up, down };
process.stdout.write(JSON.stringify(paths));
