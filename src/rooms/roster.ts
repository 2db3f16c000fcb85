import type { PeerDescription, PeerKind } from '../protocol/messages.ts';

/** Called when the kind of a member's connection has changed. */
type OnKind = (peer: { peer: string; kind: PeerKind; speaker: number }) => void;
/** Peer object of this node, or id of another node: it has one connection of a peer. */
type Occupant = object | string;
/** Kind and mute state of one connection of a peer. */
type Held = { kind: PeerKind; muted: boolean };
/** Peer with one entry for each of its connections; the newest one determines its state. */
type Member = { speaker: number; occupants: Map<Occupant, Held> };

/**
 * Peers of a room on all nodes. A peer that comes back on another connection, perhaps to another node, has two
 * connections for a while: it is in the room as long as it has one, and the others see it neither leave nor join.
 */
export class Roster {
  readonly #members = new Map<string, Member>();
  readonly #onMuted: (name: string, muted: boolean) => void;
  readonly #onKind: OnKind;
  /** Numbers of peers that are about to enter. */
  readonly #reserved = new Map<string, number>();
  /** Numbers of members, and those that are reserved. */
  readonly #taken = new Set<number>();
  #nextSpeaker = 0;

  /** @param onMuted called when a member is muted or unmuted */
  constructor(
    onMuted: (name: string, muted: boolean) => void = () => {},
    onKind: OnKind = () => {},
  ) {
    this.#onMuted = onMuted;
    this.#onKind = onKind;
  }

  /** Number of peers in the room. */
  get size(): number {
    return this.#members.size;
  }

  /** Returns whether a peer is in the room. */
  has(name: string): boolean {
    return this.#members.has(name);
  }

  /** Returns the state of a peer; undefined if it is not in the room. */
  stateOf(name: string): Held | undefined {
    const member = this.#members.get(name);
    return member && latestOf(member);
  }

  /**
   * Returns the speaker number of a peer (16 bits, unique in the room on this node). Reserves one if it has none; {@link leave}
   * releases it.
   */
  speakerOf(name: string): number {
    const known = this.#members.get(name)?.speaker ?? this.#reserved.get(name);
    if (known !== undefined) return known;
    const speaker = this.#takeNumber();
    this.#reserved.set(name, speaker);
    return speaker;
  }

  /** @returns the member, if it is new */
  enter(
    name: string,
    kind: PeerKind,
    occupant: Occupant,
    muted = false,
  ): PeerDescription | undefined {
    const member = this.#members.get(name);
    if (member) {
      this.#change(name, member, () => member.occupants.set(occupant, { kind, muted }));
      return undefined;
    }
    const speaker = this.speakerOf(name);
    this.#reserved.delete(name);
    this.#members.set(name, { speaker, occupants: new Map([[occupant, { kind, muted }]]) });
    return { peer: name, kind, speaker, muted };
  }

  /** Sets the mute state of one connection of a peer. */
  setMuted(name: string, occupant: Occupant, muted: boolean): void {
    const member = this.#members.get(name);
    const held = member?.occupants.get(occupant);
    if (!member || !held) return;
    this.#change(name, member, () => {
      held.muted = muted;
    });
  }

  /** Replaces the occupant of one connection of a peer. */
  handOver(name: string, before: Occupant, after: Occupant, held: Held): void {
    const member = this.#members.get(name);
    if (!member?.occupants.has(before)) return;
    this.#change(name, member, () => {
      member.occupants.delete(before);
      member.occupants.set(after, held);
    });
  }

  /** @returns the member, if it has left the room */
  leave(name: string, occupant: Occupant): PeerDescription | undefined {
    const member = this.#members.get(name);
    if (!member) this.#forgetReserved(name);
    const held = member?.occupants.get(occupant);
    if (!member || !held) return undefined;
    if (member.occupants.size > 1) {
      this.#change(name, member, () => member.occupants.delete(occupant));
      return undefined;
    }
    this.#members.delete(name);
    this.#taken.delete(member.speaker);
    return { peer: name, speaker: member.speaker, ...held };
  }

  /** Returns all peers except `name`. */
  others(name: string): PeerDescription[] {
    return [...this.#members]
      .filter(([peer]) => peer !== name)
      .map(([peer, member]) => ({ peer, speaker: member.speaker, ...latestOf(member) }));
  }

  #change(name: string, member: Member, change: () => unknown): void {
    const before = { ...latestOf(member) };
    change();
    const { muted, kind } = latestOf(member);
    if (kind !== before.kind) this.#onKind({ peer: name, kind, speaker: member.speaker });
    if (muted !== before.muted) this.#onMuted(name, muted);
  }

  #forgetReserved(name: string): void {
    const speaker = this.#reserved.get(name);
    if (speaker === undefined) return;
    this.#reserved.delete(name);
    this.#taken.delete(speaker);
  }

  /** Takes the next free number, without a look at all members: 500 may come at once. */
  #takeNumber(): number {
    do this.#nextSpeaker = (this.#nextSpeaker + 1) & 0xffff;
    while (this.#taken.has(this.#nextSpeaker));
    this.#taken.add(this.#nextSpeaker);
    return this.#nextSpeaker;
  }
}

const latestOf = ({ occupants }: Member): Held => [...occupants.values()].at(-1)!;
