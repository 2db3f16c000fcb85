import type { PeerDescription, PeerKind } from '../protocol/messages.ts';

/** Who holds a place in the room: a peer of this node, or another node for a peer of its own. */
type Holder = object | string;
type Member = { kind: PeerKind; speaker: number; holders: Map<Holder, PeerKind> };

/**
 * Who is in a room, over all nodes. A peer that comes back on another connection, perhaps to another node, holds two
 * places for a while: it is there as long as it has one, and the others see it neither leave nor join.
 */
export class Roster {
  readonly #members = new Map<string, Member>();
  /** Numbers of those who are about to enter. */
  readonly #reserved = new Map<string, number>();
  #nextSpeaker = 0;

  /** The number that stands for a peer in the head of forwarded frames: 16 bits, nobody else's in the room on this node. */
  speakerOf(name: string): number {
    const known = this.#members.get(name)?.speaker ?? this.#reserved.get(name);
    if (known !== undefined) return known;
    const speaker = this.#freeNumber();
    this.#reserved.set(name, speaker);
    return speaker;
  }

  /** @returns the member, if it was not there before */
  enter(name: string, kind: PeerKind, holder: Holder): PeerDescription | undefined {
    const member = this.#members.get(name);
    if (member) {
      member.kind = kind;
      member.holders.set(holder, kind);
      return undefined;
    }
    const speaker = this.speakerOf(name);
    this.#reserved.delete(name);
    this.#members.set(name, { kind, speaker, holders: new Map([[holder, kind]]) });
    return { peer: name, kind, speaker };
  }

  /** @returns the member, if it is not there any more */
  leave(name: string, holder: Holder): PeerDescription | undefined {
    const member = this.#members.get(name);
    if (!member) this.#reserved.delete(name);
    if (!member?.holders.delete(holder)) return undefined;
    const [kind] = [...member.holders.values()].slice(-1);
    if (kind) {
      member.kind = kind;
      return undefined;
    }
    this.#members.delete(name);
    return { peer: name, kind: member.kind, speaker: member.speaker };
  }

  /** Everybody but `name`. */
  others(name: string): PeerDescription[] {
    return [...this.#members]
      .filter(([peer]) => peer !== name)
      .map(([peer, { kind, speaker }]) => ({ peer, kind, speaker }));
  }

  #freeNumber(): number {
    const taken = new Set(this.#reserved.values());
    for (const { speaker } of this.#members.values()) taken.add(speaker);
    do this.#nextSpeaker = (this.#nextSpeaker + 1) & 0xffff;
    while (taken.has(this.#nextSpeaker));
    return this.#nextSpeaker;
  }
}
