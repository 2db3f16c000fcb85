import type {
  NodeList,
  PeerDescription,
  RoomDescription,
  RoomReference,
  RoomList,
} from '../../src/operator/schemas.ts';
import { type Api, Refusal } from './api.ts';
import { followNodes, type KnownNode } from './known-nodes.ts';
import { Poll } from './poll.ts';

const EVERY_MS = 1000;
/** Rooms that are listed at first, and by each press of Show more. */
const PART = 100;
/** Maximum number of rooms in one answer of the gateway. */
const MOST = 1000;

/** A question before something is done that cannot be undone. */
export type Question = {
  /** List in which the question was asked. */
  list: 'nodes' | 'room';
  words: string;
  consequence: string;
  yes: string;
  /** Takes the answer; further ones change nothing. */
  settle: (answer: boolean) => void;
};

/** Everything that is shown after sign-in. */
export type OverviewState = {
  nodes: readonly KnownNode[];
  summary: string;
  /** Something does not answer; empty if all is well. */
  trouble: string;
  /** Result of the last action; empty before the first. */
  outcome: string;
  search: string;
  rooms: RoomList | undefined;
  /** Sentence that says that the search found no rooms; empty before its answer, and if a node did not answer. */
  noRooms: string;
  /** End of the list of rooms: all are shown, more can be shown, or more than can be shown. */
  roomsEnd: 'all' | 'more' | 'too_many';
  chosen: RoomReference | undefined;
  /** Peers of the chosen room; undefined until they are known. */
  room: RoomDescription | 'empty' | undefined;
  question: Question | undefined;
};

const START: OverviewState = {
  nodes: [],
  summary: '',
  trouble: '',
  outcome: '',
  search: '',
  rooms: undefined,
  noRooms: '',
  roomsEnd: 'all',
  chosen: undefined,
  room: undefined,
  question: undefined,
};

/** Handlers of an overview. */
type OverviewHandlers = {
  changed: (state: OverviewState) => void;
  /** Called when the gateway no longer accepts the key. */
  locked: (reason: string) => void;
};

/** State of the page after sign-in: refreshed every second while the page is visible. */
export class Overview {
  readonly #api: Api;
  readonly #handlers: OverviewHandlers;
  readonly #poll: Poll;
  #state = START;
  #limit = PART;
  #isClosed = false;

  constructor(api: Api, handlers: OverviewHandlers) {
    this.#api = api;
    this.#handlers = handlers;
    this.#poll = new Poll(() => this.#refresh(), EVERY_MS);
  }

  get state(): OverviewState {
    return this.#state;
  }

  close(): void {
    this.#isClosed = true;
    this.#poll.close();
    this.#api.close();
  }

  search(search: string): void {
    this.#limit = PART;
    this.#show({ search, noRooms: '' });
    this.#poll.now();
  }

  showMore(): void {
    this.#limit = Math.min(MOST, this.#limit + PART);
    this.#poll.now();
  }

  /** Opens a room before its data is known; undefined closes it. */
  choose(chosen: RoomReference | undefined): void {
    this.#show({ chosen, room: undefined, ...(chosen && { outcome: '' }) });
    this.#poll.now();
  }

  async drain(node: KnownNode): Promise<void> {
    const name = node.description?.name ?? node.id;
    const isSure = await this.#ask({
      list: 'nodes',
      words: `Drain ${name}?`,
      consequence:
        'All gateway processes that share its port refuse new clients, ask theirs to move to another node, and end when they have left, or at the deadline.',
      yes: 'Drain',
    });
    if (isSure) await this.#act((api) => api.drain(node.id), `${name} is draining.`);
  }

  async kick({ peer }: PeerDescription): Promise<void> {
    const room = this.#state.chosen;
    if (!room) return;
    const isSure = await this.#ask({
      list: 'room',
      words: `Kick ${peer}?`,
      consequence:
        'Its connection is closed, and its place is not kept. It may connect again: to keep it out, revoke its key.',
      yes: 'Kick',
    });
    if (isSure) await this.#act((api) => api.kick(room.account_id, peer), `${peer} was kicked.`);
  }

  /** Returns what a node is called, by its id. */
  nameOf(id: string): string {
    return this.#state.nodes.find((node) => node.id === id)?.description?.name ?? id.slice(0, 8);
  }

  #show(change: Partial<OverviewState>): void {
    if (this.#isClosed) return;
    this.#state = { ...this.#state, ...change };
    this.#handlers.changed(this.#state);
  }

  async #refresh(): Promise<void> {
    const refreshed = await Promise.allSettled([
      this.#refreshNodes(),
      this.#refreshRooms(),
      this.#refreshRoom(),
    ]);
    if (this.#isClosed) return;
    const failed = refreshed.find((part) => part.status === 'rejected');
    const trouble = failed ? this.#reasonOf(failed.reason) : silence(this.#state);
    this.#show({ trouble });
  }

  async #refreshNodes(): Promise<void> {
    const list = await this.#api.nodes().catch((fault: unknown) => this.#listWithoutStore(fault));
    const { nodes } = list;
    const sessions = nodes.reduce((sum, node) => sum + node.sessions, 0);
    const count = nodes.length + list.unreachable.length;
    this.#show({
      nodes: followNodes([...this.#state.nodes], list, Date.now()),
      summary: `${count} ${count === 1 ? 'node' : 'nodes'} · ${sessions} ${sessions === 1 ? 'client' : 'clients'}`,
    });
  }

  /** Notes that only this node is known, because Redis is disconnected: the others may be alive or not. */
  async #listWithoutStore(fault: unknown): Promise<NodeList> {
    if (!(fault instanceof Refusal) || fault.status !== 503) throw fault;
    const self = await this.#api.self();
    const others = this.#state.nodes.filter(({ id, state }) => id !== self.id && state !== 'gone');
    return { nodes: [self], unreachable: others.map(({ id }) => id) };
  }

  async #refreshRooms(): Promise<void> {
    const limit = this.#limit;
    const { search } = this.#state;
    const rooms = await this.#api.rooms(search.trim(), limit);
    const beyond = limit < MOST ? 'more' : 'too_many';
    const isEmpty = rooms.rooms.length === 0 && rooms.unreachable.length === 0;
    const noRooms = isEmpty && search === this.#state.search ? emptyWords(search) : '';
    this.#show({ rooms, noRooms, roomsEnd: rooms.next === undefined ? 'all' : beyond });
  }

  async #refreshRoom(): Promise<void> {
    const { chosen } = this.#state;
    if (!chosen) return;
    let room: OverviewState['room'];
    try {
      room = await this.#api.room(chosen);
    } catch (fault) {
      if (!(fault instanceof Refusal) || fault.code !== 'not_found') throw fault;
      room = 'empty';
    }
    if (this.#state.chosen === chosen) this.#show({ room });
  }

  /** Resolves to the answer to a question; the one before it, if it is open yet, is answered with no. */
  #ask(asked: Omit<Question, 'settle'>): Promise<boolean> {
    this.#state.question?.settle(false);
    return new Promise((resolve) => {
      const question: Question = {
        ...asked,
        settle: (answer) => {
          if (this.#state.question === question) this.#show({ question: undefined });
          resolve(answer);
        },
      };
      this.#show({ question });
    });
  }

  async #act(act: (api: Api) => Promise<void>, done: string): Promise<void> {
    this.#show({ outcome: '' });
    const outcome = await act(this.#api).then(
      () => done,
      (fault: unknown) => this.#reasonOf(fault),
    );
    if (this.#isClosed) return;
    this.#show({ outcome });
    this.#poll.now();
  }

  /** Describes a fault in words; a key that is no longer valid signs the operator out. */
  #reasonOf(fault: unknown): string {
    if (!(fault instanceof Refusal))
      return 'The gateway does not answer; the data shown is outdated.';
    if (fault.isKeyRefused && !this.#isClosed) this.#handlers.locked(fault.message);
    return fault.message;
  }
}

const emptyWords = (search: string): string =>
  search.trim() === '' ? 'Nobody is in a room.' : 'No room matches.';

/** Names the nodes that live and did not answer one of the questions; empty if there are none. */
function silence({ nodes, rooms, room }: OverviewState): string {
  const silent = new Set([
    ...nodes.filter(({ state }) => state === 'unreachable').map(({ id }) => id),
    ...(rooms?.unreachable ?? []),
    ...(typeof room === 'object' ? room.unreachable : []),
  ]);
  if (silent.size === 0) return '';
  const nameOf = (id: string) => nodes.find((node) => node.id === id)?.description?.name ?? id;
  const names = [...silent].map(nameOf).join(', ');
  return `No answer from ${names}: their rooms and peers are missing here.`;
}
