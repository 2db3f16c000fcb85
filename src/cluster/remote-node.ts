import type { FastifyBaseLogger } from 'fastify';
import type { ListenAddress } from '../../config/listen-addresses.ts';
import type { Timings } from '../../config/timings.ts';
import type { NodePipe, PipedIn, PipedOut } from '../media/node-pipe.ts';
import { counters } from '../counters.ts';
import { noteShortage } from '../resources.ts';
import { LinkWatch } from './link-watch.ts';
import type { PipeEnd, RoomState } from './room-state.ts';

/** This node's side of a room: its producers, and its handling of those of other nodes. */
export type RoomEnd = {
  /** The id of this node. */
  readonly node: string;
  /** Producers of this node: id → peer. */
  readonly producers: ReadonlyMap<string, string>;
  /** True while this node has anybody in the room, and a router for it. */
  readonly isOpen: boolean;
  /** Returns where this node receives from one that has these families; undefined if no pipe can lead there. */
  addressFor(families: RoomState['families']): ListenAddress | undefined;
  openPipe(address: ListenAddress): Promise<NodePipe>;
  /** Called when this node's end has changed and must be announced. */
  changed(): void;
  heard(peer: string, producerId: string): Promise<void>;
  unheard(producerId: string): void;
  readonly log: FastifyBaseLogger;
  readonly timings: Timings['pipes'];
};

type Pipe = {
  own: NodePipe;
  /** The other node's end to which it is connected. */
  other: string | undefined;
  sent: Map<string, PipedOut & { peer: string }>;
  heard: Map<string, PipedIn>;
  watch: LinkWatch;
  /** Watches the link; closed with the pipe. */
  timer: NodeJS.Timeout;
};

/**
 * Another node in a room. Each of the two opens its end of a pipe and tells the other its address; an end is
 * connected once, to one end: when one of them is opened anew (its media worker died, its network was cut), so is the
 * other. The next step follows from the last states of both, so that the order of events does not matter.
 */
export class RemoteNode {
  readonly #node: string;
  readonly #end: RoomEnd;
  #state: RoomState;
  #pipe: Pipe | undefined;
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

  /** True if this node's end of a pipe is open, connected or not: it takes a port. */
  get hasPipe(): boolean {
    return this.#pipe !== undefined;
  }

  /** This node's end, for the other. */
  describeEnd(): PipeEnd | undefined {
    if (!this.#pipe) return undefined;
    const { own, other, sent, heard } = this.#pipe;
    return {
      id: own.id,
      ip: own.address.ip,
      port: own.address.port,
      srtp_parameters: own.address.srtpParameters,
      ...(other !== undefined && { connected_to: other }),
      sends: [...sent].map(([id, { peer, rtpParameters, paused }]) => ({
        producer_id: id,
        peer,
        rtp_parameters: rtpParameters,
        paused,
      })),
      hears: [...heard.keys()],
    };
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
    counters.pipeFaults += 1;
    noteShortage(fault);
    this.#end.log.warn({ err: fault, node: this.#node }, 'pipe to node failed; reopened');
    this.#closePipe();
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

  async #open(address: ListenAddress): Promise<Pipe> {
    const own = await this.#end.openPipe(address);
    this.#end.changed();
    const pipe: Pipe = {
      own,
      other: undefined,
      sent: new Map(),
      heard: new Map(),
      watch: new LinkWatch(this.#end.timings.cutAfterMs),
      timer: setInterval(() => this.#watch(pipe), this.#end.timings.checkEveryMs),
    };
    return pipe;
  }

  #watch(pipe: Pipe): void {
    if (pipe.sent.size === 0) {
      pipe.watch.rest();
      return;
    }
    pipe.own.traffic().then(
      (traffic) => {
        if (this.#pipe !== pipe || !pipe.watch.isBack(traffic, performance.now())) return;
        counters.pipeFaults += 1;
        this.#end.log.warn({ node: this.#node }, 'network to node was cut; pipe reopened');
        this.#closePipe();
        this.converge();
      },
      // Requests of a pipe that closes are rejected.
      () => {},
    );
  }

  async #send({ own, sent }: Pipe): Promise<void> {
    const { producers } = this.#end;
    for (const [id, piped] of sent) {
      if (producers.has(id)) continue;
      sent.delete(id);
      piped.close();
      this.#end.changed();
    }
    const added = [...producers].filter(([id]) => !sent.has(id));
    await Promise.all(
      added.map(async ([id, peer]) => {
        const piped = await own.send(id, () => this.#end.changed());
        sent.set(id, Object.assign(piped, { peer }));
        this.#end.changed();
      }),
    );
  }

  async #receive(pipe: Pipe): Promise<void> {
    const sends = this.#otherEnd?.sends ?? [];
    const offered = new Set(sends.map((piped) => piped.producer_id));
    for (const [id, piped] of pipe.heard) if (!offered.has(id)) this.#unhear(pipe, id, piped);
    await Promise.all(sends.map((piped) => this.#hear(pipe, piped)));
  }

  async #hear({ own, heard }: Pipe, sent: PipeEnd['sends'][number]): Promise<void> {
    const { producer_id: id, peer, rtp_parameters: rtpParameters, paused } = sent;
    let piped = heard.get(id);
    if (!piped) {
      piped = await own.receive(id, rtpParameters);
      // The pipe was closed meanwhile, and another is opened.
      if (this.#pipe?.own !== own) return;
      heard.set(id, piped);
      await this.#end.heard(peer, id);
      this.#end.changed();
    }
    if (piped.paused !== paused) await piped.setPaused(paused);
  }

  #unhear({ heard }: Pipe, id: string, piped: PipedIn): void {
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
