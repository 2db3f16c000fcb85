import type { NodeList, PeerDescription, RoomKey } from '../../src/operator/schemas.ts';
import { element } from '../element.ts';
import { type Api, Refusal } from './api.ts';
import { confirmed } from './confirm.ts';
import { followNodes, type KnownNode } from './known-nodes.ts';
import { NodesView } from './nodes-view.ts';
import { Poll } from './poll.ts';
import { RoomsView } from './rooms-view.ts';
import { RoomView } from './room-view.ts';

const EVERY_MS = 1000;

/** The page after sign-in: refreshed every second while it is visible. */
export class Overview {
  readonly #section = element('overview', HTMLElement);
  readonly #summary = element('summary', HTMLElement);
  readonly #trouble = element('trouble', HTMLElement);
  readonly #outcome = element('outcome', HTMLElement);
  readonly #nodesView = new NodesView((node) => void this.#drain(node));
  readonly #roomsView = new RoomsView({
    onChoose: (room) => this.#choose(room),
    onChange: () => this.#poll?.now(),
  });
  readonly #roomView = new RoomView(
    (peer) => void this.#kick(peer),
    () => this.#leaveRoom(),
  );
  readonly #onLocked: (reason: string) => void;
  #api: Api | undefined;
  #poll: Poll | undefined;
  #nodes: KnownNode[] = [];
  #room: RoomKey | undefined;

  /** @param onLocked called when the gateway does not take the key any more */
  constructor(onLocked: (reason: string) => void) {
    this.#onLocked = onLocked;
  }

  open(api: Api): void {
    this.#api = api;
    this.#section.hidden = false;
    element('overview-title', HTMLElement).focus();
    this.#poll = new Poll(() => this.#refresh(api), EVERY_MS);
  }

  close(): void {
    this.#poll?.close();
    this.#api?.close();
    this.#poll = undefined;
    this.#api = undefined;
    this.#nodes = [];
    this.#room = undefined;
    this.#roomView.close();
    this.#section.hidden = true;
  }

  async #refresh(api: Api): Promise<void> {
    const refreshed = await Promise.allSettled([
      this.#refreshNodes(api),
      this.#refreshRooms(api),
      this.#refreshRoom(api),
    ]);
    if (this.#api !== api) return;
    const failed = refreshed.find((part) => part.status === 'rejected');
    this.#say(this.#trouble, failed ? this.#reasonOf(failed.reason) : silence(this.#nodes));
  }

  async #refreshNodes(api: Api): Promise<void> {
    const list = await api.nodes().catch((fault: unknown) => this.#listWithoutStore(api, fault));
    if (this.#api !== api) return;
    this.#nodes = followNodes(this.#nodes, list, Date.now());
    this.#nodesView.show(this.#nodes);
    const { nodes } = list;
    const sessions = nodes.reduce((sum, node) => sum + node.sessions, 0);
    const count = nodes.length + list.unreachable.length;
    this.#summary.textContent = `${count} ${count === 1 ? 'node' : 'nodes'} · ${sessions} ${sessions === 1 ? 'client' : 'clients'}`;
  }

  /** Without the store a node knows of itself alone: the others may live, or not. */
  async #listWithoutStore(api: Api, fault: unknown): Promise<NodeList> {
    if (!(fault instanceof Refusal) || fault.status !== 503) throw fault;
    const self = await api.self();
    const others = this.#nodes.filter(({ id, state }) => id !== self.id && state !== 'gone');
    return { nodes: [self], unreachable: others.map(({ id }) => id) };
  }

  async #refreshRooms(api: Api): Promise<void> {
    const { search, limit } = this.#roomsView.query;
    const list = await api.rooms(search, limit);
    if (this.#api === api) this.#roomsView.show(list, this.#room);
  }

  async #refreshRoom(api: Api): Promise<void> {
    const room = this.#room;
    if (!room) return;
    const isStill = () => this.#api === api && this.#room === room;
    try {
      const described = await api.room(room);
      if (isStill()) this.#roomView.show(described, (node) => this.#nameOf(node));
    } catch (fault) {
      if (!(fault instanceof Refusal) || fault.status !== 404) throw fault;
      if (isStill()) this.#roomView.showEmpty();
    }
  }

  #nameOf(id: string): string {
    return this.#nodes.find((node) => node.id === id)?.description?.name ?? id.slice(0, 8);
  }

  #choose(room: RoomKey): void {
    this.#room = room;
    this.#say(this.#outcome, '');
    this.#roomView.open(room);
    this.#poll?.now();
  }

  #leaveRoom(): void {
    this.#room = undefined;
    this.#roomView.close();
    this.#roomsView.focus();
    this.#poll?.now();
  }

  async #drain(node: KnownNode): Promise<void> {
    const name = node.description?.name ?? node.id;
    const isSure = await confirmed(
      `Drain ${name}?`,
      'It takes nobody any more, asks its clients to go elsewhere, and ends when they have, or at its deadline.',
      'Drain',
    );
    if (isSure) await this.#act((api) => api.drain(node.id), `${name} is draining.`);
  }

  async #kick({ peer }: PeerDescription): Promise<void> {
    const room = this.#room;
    if (!room) return;
    const isSure = await confirmed(
      `Kick ${peer}?`,
      'Its connection is closed, and its place given up. It may connect again: to keep it out, revoke its key.',
      'Kick',
    );
    if (isSure) await this.#act((api) => api.kick(room.account_id, peer), `${peer} was kicked.`);
  }

  async #act(act: (api: Api) => Promise<void>, done: string): Promise<void> {
    const api = this.#api;
    if (!api) return;
    this.#say(this.#outcome, '');
    const outcome = await act(api).then(
      () => done,
      (fault: unknown) => this.#reasonOf(fault),
    );
    if (this.#api !== api) return;
    this.#say(this.#outcome, outcome);
    this.#poll?.now();
  }

  /** Describes a fault in words; a key that is no longer valid signs the operator out. */
  #reasonOf(fault: unknown): string {
    if (!(fault instanceof Refusal)) return 'The gateway does not answer; what you see is old.';
    if (fault.isOfKey) this.#onLocked(fault.message);
    return fault.message;
  }

  /** Says something once: what is said already is not said again to those who listen. */
  #say(where: HTMLElement, text: string): void {
    if (where.textContent !== text) where.textContent = text;
    where.hidden = text === '';
  }
}

/** Which nodes live and do not answer. */
function silence(nodes: KnownNode[]): string {
  const silent = nodes.filter(({ state }) => state === 'unreachable');
  if (silent.length === 0) return '';
  const names = silent.map(({ id, description }) => description?.name ?? id).join(', ');
  return `No answer from ${names}: what is there is missing here.`;
}
