import * as fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { PartylineClient } from '../../../../packages/client/src/client.ts';
import { PartylineError } from '../../../../packages/client/src/errors.ts';
import type { AudioParts, RoomAudio } from '../../../../packages/client/src/room-audio.ts';
import type { ClientState, Transport } from '../../../../packages/client/src/state.ts';
import { VirtualChannel } from '../../../support/virtual-channel.ts';

/**
 * Calls of a page in any order, on a network that does anything at any moment, in virtual time. Gateway, network and audio are the test's. Once
 * the network works again, client and gateway agree on where the client is, and that is where the page wanted it.
 */

const LATENCY_MS = 20;
const CLOSED_SHOP = 'closed shop';

/** State of the network. Messages that it does not let through wait, as in TCP. */
let network: { isReachable: boolean; up: boolean; down: boolean; udp: boolean; name: string };
let lines: Line[];
let gateway: Gateway;

const done = () => Promise.resolve();
const audioOf =
  (transport: Transport) =>
  ({ wire }: AudioParts): Partial<RoomAudio> => ({
    transport,
    openedMs: performance.now(),
    isPathBroken: false,
    isStopped: false,
    isPlaybackBlocked: false,
    get hasPath() {
      return transport === 'websocket' || network.udp;
    },
    get searchedMs() {
      return network.udp ? 0 : 10_000;
    },
    opened: () => new Promise((resolve) => setTimeout(resolve, 50)),
    prove: done,
    applyMicrophone: async () => {
      if (transport !== 'webrtc') return;
      const rtp_parameters = { codecs: [] };
      await wire.request({ type: 'produce', transport_id: 't', kind: 'audio', rtp_parameters });
    },
    applySettings: done,
    applyMuted: done,
    trackOf: () => undefined,
    receive: () => undefined,
    resume: () => undefined,
    setHurried: () => undefined,
    retire: () => undefined,
    close: () => undefined,
  });
vi.mock('../../../../packages/client/src/load-audio.ts', () => ({
  loadAudio: (transport: Transport) => Promise.resolve(audioOf(transport)),
}));

/** One direction of a connection. Delivers in order, each message in a task of its own, and nothing while the network lets nothing through. */
class Pipe {
  readonly #direction: 'up' | 'down';
  #waiting: (() => void)[] = [];

  constructor(direction: 'up' | 'down') {
    this.#direction = direction;
  }

  push(deliver: () => void): void {
    this.#waiting.push(deliver);
    setTimeout(() => this.flush(), LATENCY_MS);
  }

  flush(): void {
    if (!network[this.#direction]) return;
    this.#waiting.shift()?.();
    if (this.#waiting.length > 0) setTimeout(() => this.flush());
  }

  clear(): void {
    this.#waiting = [];
  }
}

/** A WebSocket. */
class Line extends EventTarget {
  static readonly OPEN = 1;
  readonly readyState = Line.OPEN;
  readonly bufferedAmount = 0;
  readonly #up = new Pipe('up');
  readonly #down = new Pipe('down');
  #isOver = false;

  constructor() {
    super();
    lines.push(this);
    if (network.isReachable) this.#up.push(() => gateway.accept(this));
    else setTimeout(() => this.cut(), LATENCY_MS);
  }

  send(text: string): void {
    this.#up.push(() => gateway.handle(this, JSON.parse(text) as Request));
  }

  close(code: number): void {
    this.#isOver = true;
    this.#up.push(() => gateway.lose(this, code));
  }

  say(message: object): void {
    const data = JSON.stringify(message);
    this.#down.push(() => this.#dispatch(new MessageEvent('message', { data })));
  }

  /** Ends the connection as the gateway does. */
  end(code: number): void {
    this.#down.push(() => this.#dispatch(closeEvent(code)));
  }

  /** Breaks the connection at both ends. */
  cut(): void {
    this.#up.clear();
    this.#down.clear();
    gateway.lose(this, 1006);
    this.#dispatch(closeEvent(1006));
  }

  flush(): void {
    this.#up.flush();
    this.#down.flush();
  }

  #dispatch(event: Event): void {
    if (this.#isOver) return;
    this.#isOver = event.type === 'close';
    this.dispatchEvent(event);
  }
}

const closeEvent = (code: number) => Object.assign(new Event('close'), { code, reason: '' });

type Request = { type: string; id: string; room?: string; media?: 'webrtc' };

const joined = (room: string) => ({ type: 'joined', room, speaker: 1, peers: [] });

class Gateway {
  /** Place of the client, also while it is away. */
  place: { room: string; kind: Transport } | undefined;
  /** True if another node has the place when the client connects next. */
  isElsewhere = false;
  #line: Line | undefined;
  #hasSession = false;
  #change: ReturnType<typeof setTimeout> | undefined;

  accept(line: Line): void {
    this.#line?.end(4409);
    this.#endChange();
    this.#line = line;
    // A browser's transports are not taken to another node.
    if (this.isElsewhere && this.place?.kind === 'webrtc') this.place = undefined;
    const { place, isElsewhere } = this;
    const room = place && !isElsewhere ? place.room : '__lobby__';
    const secrets = { session_id: 's', resume_token: 't', network: network.name };
    const resumed = this.#hasSession;
    line.say({ type: 'welcome', room, resumed, mute: false, ...secrets, resume_ms: 15_000 });
    if (place) {
      const consumers = place.kind === 'webrtc' ? { consumers: [] } : {};
      line.say({ ...joined(place.room), ...consumers });
    }
    this.#hasSession = true;
    this.isElsewhere = false;
  }

  lose(line: Line, code: number): void {
    if (line !== this.#line) return;
    this.#line = undefined;
    this.#endChange();
    if (code === 1000) this.place = undefined;
  }

  /** Gives up the place and the session of a client that is away. */
  forget(): void {
    this.place = undefined;
    this.#hasSession = false;
  }

  tell(message: object): void {
    this.#line?.say(message);
  }

  handle(line: Line, { type, id, room = '', media }: Request): void {
    if (line !== this.#line) return;
    const answer = (message: object) => line.say({ ...message, reply_to: id });
    const refuse = (code: string, retryable = false) =>
      answer({ type: 'error', code, message: 'No.', retryable });
    const { place } = this;
    if (type === 'join' && room === CLOSED_SHOP) return refuse('forbidden');
    if (type === 'leave' && !place) return refuse('bad_message');
    if (type === 'join' || type === 'leave') this.#endChange();
    if (type === 'leave') {
      this.place = undefined;
      return answer({ type: 'left', room: place!.room, reason: 'left' });
    }
    if (type !== 'join') return answer({ type: 'configured', audio: {}, volume: {}, mute: false });
    const kind = media ?? 'websocket';
    answer({ ...joined(room), ...(media && { webrtc: {} }) });
    if (place?.room !== room || place.kind === kind) {
      this.place = { room, kind };
      return;
    }
    const isHeard = kind === 'websocket' || network.udp;
    const end = () => {
      if (!isHeard) return refuse('media_lost', true);
      this.place = { room, kind };
      answer({ type: 'media_changed', kind, volume: {}, mute: false });
    };
    this.#change = setTimeout(end, isHeard ? 300 : 10_000);
  }

  #endChange(): void {
    clearTimeout(this.#change);
  }
}

let client: PartylineClient;
/** Room in which the page wants to be by its last call. */
let wanted: string | undefined;
/** Number of calls that have not settled. */
let pending: number;
/** Failures of calls that are no fault of the client's. */
let foreign: unknown[];

function note(call: Promise<unknown>): void {
  pending += 1;
  call
    .catch((error: unknown) => {
      const isTooEarly = error instanceof TypeError && /cannot be called while/.test(error.message);
      if (!isTooEarly && !(error instanceof PartylineError)) foreign.push(error);
    })
    .finally(() => (pending -= 1));
}

function join(room: string): void {
  if (['lobby', 'in_room', 'reconnecting'].includes(client.state.name)) wanted = room;
  const microphone = Object.assign(new EventTarget(), { readyState: 'live', muted: false });
  note(client.join(room, microphone as unknown as MediaStreamTrack));
}

/** Calls of a page. */
const CALLS = {
  connect: () => note(client.connect()),
  kitchen: () => join('kitchen'),
  hall: () => join('hall'),
  closedShop: () => join(CLOSED_SHOP),
  leave: () => {
    wanted = undefined;
    note(client.leave());
  },
  mute: () => note(client.mute()),
  listen: () => note(client.setMicrophone(null)),
};

const set = (change: Partial<typeof network>) => {
  Object.assign(network, change);
  for (const line of lines) line.flush();
};
const cut = () => lines.at(-1)?.cut();

/** Events of networks and gateways. */
const EVENTS = {
  cut,
  forget: () => {
    cut();
    gateway.forget();
  },
  move: () => {
    cut();
    gateway.isElsewhere = true;
  },
  loseUp: () => set({ up: false }),
  loseDown: () => set({ down: false }),
  flow: () => set({ up: true, down: true }),
  unreachable: () => {
    set({ isReachable: false });
    cut();
  },
  reachable: () => set({ isReachable: true }),
  blockUdp: () => set({ udp: false }),
  openUdp: () => set({ udp: true }),
  otherNetwork: () => set({ name: `${network.name}+` }),
  drain: () => gateway.tell({ type: 'draining', deadline_ms: 5000 }),
  restartMedia: () => gateway.tell({ type: 'media_restarted' }),
};

const names = <T extends object>(of: T) => Object.keys(of) as (keyof T)[];

type Step =
  | { call: keyof typeof CALLS; isInListener: boolean }
  | { event: keyof typeof EVENTS }
  | { waitMs: number };

const steps: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ call: fc.constantFrom(...names(CALLS)), isInListener: fc.boolean() }),
  fc.record({ event: fc.constantFrom(...names(EVENTS)) }),
  fc.record({ waitMs: fc.constantFrom(1, LATENCY_MS, 100, 300, 1000, 3000, 12_000, 70_000) }),
);

async function take(step: Step): Promise<void> {
  if ('waitMs' in step) {
    await vi.advanceTimersByTimeAsync(step.waitMs);
    return;
  }
  if ('event' in step) return EVENTS[step.event]();
  const call = CALLS[step.call];
  if (!step.isInListener) return call();
  const stop = client.on('change', () => {
    stop();
    call();
  });
}

function open(): void {
  network = { isReachable: true, up: true, down: true, udp: true, name: '192.0.2.0/24' };
  lines = [];
  gateway = new Gateway();
  wanted = undefined;
  pending = 0;
  foreign = [];
  const getToken = () => Promise.resolve('token');
  client = new PartylineClient({ peer: 'ada', getToken });
  note(client.connect());
}

/** Lets the network work, and the client find that out. */
async function heal(): Promise<void> {
  set({ isReachable: true, up: true, down: true, udp: true });
  await vi.advanceTimersByTimeAsync(90_000);
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, 'random').mockReturnValue(0.5);
  vi.stubGlobal('location', { href: 'https://voice.example.com/' });
  vi.stubGlobal('WebSocket', Line);
  vi.stubGlobal('MessageChannel', VirtualChannel);
  const events = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('window', { setTimeout, clearTimeout, setInterval, clearInterval, ...events });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** Place of the client as it sees it itself. */
const place = () => client.transport && { room: roomIn(client.state), kind: client.transport };
const areAgreed = () =>
  place()?.room === gateway.place?.room && place()?.kind === gateway.place?.kind;

const roomIn = (state: ClientState) => (state.name === 'in_room' ? state.room : undefined);

test('after any calls on any network, client and gateway agree on the room that the page wants', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 15 }), async (taken) => {
      open();
      for (const step of taken) await take(step);
      await heal();
      // A change of the transport may be under way.
      for (let i = 0; i < 20 && !areAgreed(); i += 1) await vi.advanceTimersByTimeAsync(100);
      const { state } = client;
      const room = roomIn(state);
      const isCalm =
        state.name === 'in_room' ? state.trouble === undefined : state.name === 'lobby';
      expect({ pending, foreign, isCalm, room, place: place() }).toEqual({
        pending: 0,
        foreign: [],
        isCalm: true,
        // A join that is refused leads back to the room before, or to the lobby.
        room: wanted === CLOSED_SHOP ? room : wanted,
        place: gateway.place,
      });
      client.close();
      await vi.advanceTimersByTimeAsync(1000);
      expect({ timers: vi.getTimerCount(), place: gateway.place }).toEqual({ timers: 0 });
    }),
    { seed: 20_261_128, numRuns: 200 },
  );
});

test('a client that is closed at any moment ends, as do all its calls', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 8 }), async (taken) => {
      open();
      for (const step of taken) await take(step);
      client.close();
      for (const call of Object.values(CALLS)) call();
      expect(client.state.name).toBe('closed');
      await heal();
      expect(client.state.name).toBe('closed');
      expect({ pending, foreign, timers: vi.getTimerCount() }).toEqual({
        pending: 0,
        foreign: [],
        timers: 0,
      });
    }),
    { seed: 20_261_128, numRuns: 200 },
  );
});
