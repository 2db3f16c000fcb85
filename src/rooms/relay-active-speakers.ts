/** Maximum pause between two messages of one stream: sound in pieces of up to 2 s is one stream. */
const MAX_GAP_MS = 2500;
/** Time for which a peer counts as talking after a message, as a multiple of the last gap between two of its messages. */
const GAPS = 1.5;

type Talker = { atMs: number; gapMs: number };

/**
 * Active speakers among the peers that send messages of unknown formats, judged by the times of messages
 * alone. Pure: the caller passes the time.
 */
export class RelayActiveSpeakers {
  readonly #holdMs: number;
  readonly #activeSpeakers = new Map<string, Talker>();

  /** @param holdMs minimum time for which a peer counts as talking after a message */
  constructor(holdMs: number) {
    this.#holdMs = holdMs;
  }

  /** @returns true if the peer has begun to talk */
  heard(peer: string, nowMs: number): boolean {
    const before = this.#activeSpeakers.get(peer);
    if (!before) {
      this.#activeSpeakers.set(peer, { atMs: nowMs, gapMs: 0 });
      return true;
    }
    const wasTalking = this.#isTalking(before, nowMs);
    const gapMs = nowMs - before.atMs;
    before.gapMs = gapMs <= MAX_GAP_MS ? gapMs : 0;
    before.atMs = nowMs;
    return !wasTalking;
  }

  talking(nowMs: number): string[] {
    return [...this.#activeSpeakers].flatMap(([peer, talker]) =>
      this.#isTalking(talker, nowMs) ? peer : [],
    );
  }

  forget(peer: string): void {
    this.#activeSpeakers.delete(peer);
  }

  #isTalking({ atMs, gapMs }: Talker, nowMs: number): boolean {
    return nowMs - atMs <= Math.max(this.#holdMs, GAPS * gapMs);
  }
}
