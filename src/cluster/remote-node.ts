import type { ListenAddress } from '../../config/listen-addresses.ts';
import type { PipedIn } from '../media/node-pipe.ts';
import { counters } from '../counters.ts';
import { noteShortage } from '../resources.ts';
import { LinkWatch } from './link-watch.ts';
import type { RoomEnd } from './room-end.ts';
import { describePipe, type RoomPipe } from './room-pipe.ts';
import type { PipeEnd, RoomState } from './room-state.ts';

/**
 * Another node in a room. Each of the two opens its end of a pipe and tells the other its address; an end is
 * connected once, to one end: when one of them is opened anew (its media worker died, its network was cut), so is the
 * other. The next step follows from the last states of both, so that the order of events does not matter.
 */
export class RemoteNode {
  readonly #node: string;
  readonly #end: RoomEnd;
  #state: RoomState;
  #pipe: RoomPipe | undefined;
  #isWorking = false;
  #isStale = false;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(node: string, state: RoomState, end: RoomEnd) {
    this.#node = node;
    this.#state = state;
    this.#end = end;
    this.converge();
  }

  /** Last state that the node has written. */
  get state(): RoomState {
    return this.#state;
  }

  set state(state: RoomState) {
    this.#state = state;
    this.converge();
  }

  /** True unless the two nodes have no address family in common, so that no pipe can connect them. */
  get isReachable(): boolean {
    return this.#end.addressFor(this.#state.families) !== undefined;
  }

  /** True if this node's end of the pipe is connected to the other's. */
  get isConnected(): boolean {
    return this.#pipe?.other !== undefined;
  }

  /** True while nothing comes back of what this node sends to the other. */
  get isSilent(): boolean {
    return this.#pipe?.watch.isSilent ?? false;
  }

  /** True if this node's end of a pipe is open, connected or not: it takes a port. */
  get hasPipe(): boolean {
    return this.#pipe !== undefined;
  }

  /** This node's end, for the other. */
  describeEnd(): PipeEnd | undefined {
    return this.#pipe && describePipe(this.#pipe, this.#end);
  }

  /** Returns whether the other node receives a producer of this node. */
  hears(producerId: string): boolean {
    return this.#otherEnd?.hears.includes(producerId) ?? false;
  }

  /** True if this node receives all producers of the other. */
  get isHeard(): boolean {
    const end = this.#otherEnd;
    const heard = this.#pipe?.heard;
    return end?.sends.every(({ producer_id: id }) => heard?.has(id)) ?? false;
  }

  /** Takes the next steps, one after the other, until none is left. */
  converge(): void {
    this.#isStale = true;
    if (!this.#isWorking) void this.#work();
  }

  /** Forgets the pipe, which closed with this node's router. */
  routerLost(): void {
    this.#closePipe();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    this.#closePipe();
  }

  /** The other's end, if it is the one to which this node's end is connected, and that knows of it. */
  get #otherEnd(): PipeEnd | undefined {
    const end = this.#state.pipes[this.#end.node];
    if (!end || end.id !== this.#pipe?.other) return undefined;
    return end.connected_to === this.#pipe.own.id ? end : undefined;
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    while (this.#isStale) {
      this.#isStale = false;
      try {
        await this.#step();
      } catch (fault) {
        this.#failed(fault);
      }
    }
    this.#isWorking = false;
  }

  /**
   * Handles a failed step: requests of a closed router are rejected, and another router follows; any other
   * fault is retried on a new pipe.
   */
  #failed(fault: unknown): void {
    if (this.#isClosed || !this.#end.isOpen) return;
    this.#retryLater(fault, 'pipe to node failed; reopened');
    this.#closePipe();
  }

  #retryLater(fault: unknown, event: string): void {
    counters.pipeFaults += 1;
    noteShortage(fault);
    this.#end.warn({ err: fault, node: this.#node }, event);
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.converge(), this.#end.timings.retryAfterMs);
  }

  async #step(): Promise<void> {
    const address = this.#end.addressFor(this.#state.families);
    if (!this.#end.isOpen || this.#isClosed || this.#state.peers.length === 0 || !address) {
      this.#closePipe();
      return;
    }
    const offer = this.#state.pipes[this.#end.node];
    // An end whose counterpart has closed is soon connected to another.
    if (this.#pipe?.other !== undefined && offer && offer.id !== this.#pipe.other) {
      this.#closePipe();
    }
    this.#pipe ??= await this.#open(address);
    const pipe = this.#pipe;
    if (this.#isClosed) {
      this.#closePipe();
      return;
    }
    const isFree = offer?.connected_to === undefined || offer.connected_to === pipe.own.id;
    if (offer && isFree && pipe.other === undefined) {
      await pipe.own.connect({
        ip: offer.ip,
        port: offer.port,
        srtpParameters: offer.srtp_parameters,
      });
      pipe.other = offer.id;
      this.#end.changed();
    }
    if (pipe.other === undefined || this.#pipe !== pipe) return;
    try {
      await this.#send(pipe);
      await this.#receive(pipe);
    } catch (fault) {
      // Requests of a pipe that was closed meanwhile are rejected; another follows.
      if (this.#pipe === pipe) throw fault;
    }
  }

  async #open(address: ListenAddress): Promise<RoomPipe> {
    const own = await this.#end.openPipe(address);
    this.#end.changed();
    const pipe: RoomPipe = {
      own,
      other: undefined,
      sent: new Map(),
      heard: new Map(),
      watch: new LinkWatch(this.#end.timings),
      timer: setInterval(() => this.#watch(pipe), this.#end.timings.checkEveryMs),
    };
    return pipe;
  }

  #watch(pipe: RoomPipe): void {
    if (pipe.sent.size === 0) {
      pipe.watch.rest();
      return;
    }
    pipe.own.traffic().then(
      (traffic) => {
        if (this.#pipe !== pipe) return;
        const isBack = pipe.watch.isBack(traffic, performance.now());
        this.#end.noteSilent(this.#node, pipe.watch.isSilent);
        if (!isBack) return;
        counters.pipeFaults += 1;
        this.#end.warn({ node: this.#node }, 'network to node was cut; pipe reopened');
        this.#closePipe();
        this.converge();
      },
      // Requests of a pipe that closes are rejected.
      () => {},
    );
  }

  /**
   * Pipes producers in parallel. One that fails is retried later, and the others stay; one that has ended meanwhile does not matter.
   * @throws the first fault if the pipe is closed
   */
  async #pipeEach<T>(
    { own }: RoomPipe,
    producers: T[],
    pipe: (producer: T) => Promise<void>,
    exists: (producer: T) => boolean,
  ): Promise<void> {
    const results = await Promise.allSettled(producers.map(pipe));
    for (const [i, result] of results.entries()) {
      if (result.status === 'fulfilled') continue;
      if (own.isClosed) throw result.reason;
      if (exists(producers[i]!)) this.#retryLater(result.reason, 'producer not piped; retrying');
    }
  }

  async #send(pipe: RoomPipe): Promise<void> {
    const { own, sent } = pipe;
    const { producers } = this.#end;
    for (const [id, piped] of sent) {
      if (producers.has(id)) continue;
      sent.delete(id);
      piped.close();
      this.#end.changed();
    }
    const added = [...producers].filter(([id]) => !sent.has(id));
    const send = async ([id, peer]: [string, string]) => {
      const piped = await own.send(id, () => this.#end.changed());
      sent.set(id, Object.assign(piped, { peer }));
      this.#end.changed();
    };
    await this.#pipeEach(pipe, added, send, ([id]) => producers.has(id));
  }

  async #receive(pipe: RoomPipe): Promise<void> {
    const sends = this.#sends;
    const offered = new Set(sends.map((piped) => piped.producer_id));
    for (const [id, piped] of pipe.heard) if (!offered.has(id)) this.#unhear(pipe, id, piped);
    const isOffered = ({ producer_id: id }: PipeEnd['sends'][number]) =>
      this.#sends.some((piped) => piped.producer_id === id);
    await this.#pipeEach(pipe, sends, (piped) => this.#hear(pipe, piped), isOffered);
  }

  /** Producers that the other node sends. */
  get #sends(): PipeEnd['sends'] {
    return this.#otherEnd?.sends ?? [];
  }

  async #hear(pipe: RoomPipe, sent: PipeEnd['sends'][number]): Promise<void> {
    const { own, heard } = pipe;
    const { producer_id: id, peer, rtp_parameters: rtpParameters } = sent;
    if (heard.has(id)) return;
    const piped = await own.receive(id, rtpParameters);
    // The pipe was closed meanwhile, and another is opened.
    if (this.#pipe !== pipe) return;
    heard.set(id, piped);
    // Until packets come here, the other node may stop waiting for this one.
    const isRunning = () =>
      (this.#sends.find((each) => each.producer_id === id) ?? sent).running ?? false;
    try {
      await this.#end.heard(peer, id, isRunning);
    } catch (fault) {
      if (heard.get(id) === piped) this.#unhear(pipe, id, piped);
      throw fault;
    }
    this.#end.changed();
  }

  #unhear({ heard }: RoomPipe, id: string, piped: PipedIn): void {
    heard.delete(id);
    piped.close();
    this.#end.unheard(id);
    this.#end.changed();
  }

  #closePipe(): void {
    const pipe = this.#pipe;
    if (!pipe) return;
    this.#pipe = undefined;
    clearInterval(pipe.timer);
    for (const [id, piped] of pipe.heard) this.#unhear(pipe, id, piped);
    pipe.own.close();
    this.#end.changed();
  }
}
