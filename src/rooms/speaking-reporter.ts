import type { SpeakingPeer } from '../protocol/messages.ts';

/** At most four reports a second (docs/protocol.md, "Events"). */
const INTERVAL_MS = 250;
/** Minimum change of a level that is reported, dB. */
const LEVEL_STEP_DB = 6;

/** Reports the active speakers of a room when they change; it has a timer only while a peer speaks, and until the next report may come. */
export class SpeakingReporter {
  readonly #read: () => SpeakingPeer[];
  readonly #report: (peers: SpeakingPeer[]) => void;
  #reported: SpeakingPeer[] = [];
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(read: () => SpeakingPeer[], report: (peers: SpeakingPeer[]) => void) {
    this.#read = read;
    this.#report = report;
  }

  /** Reports a change of the active speakers: at once, or a quarter of a second after the last report. */
  activeSpeakersChanged(): void {
    if (this.#timer || this.#closed) return;
    this.#run();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #run(): void {
    const peers = this.#read();
    const isDue = isWorthReporting(this.#reported, peers);
    if (isDue) {
      this.#reported = peers;
      this.#report(peers);
    }
    this.#timer = undefined;
    // The report that nobody speaks counts, too: the next word waits for its time.
    if (isDue || peers.length > 0) this.#timer = setTimeout(() => this.#run(), INTERVAL_MS);
  }
}

function isWorthReporting(before: SpeakingPeer[], now: SpeakingPeer[]): boolean {
  if (before.length !== now.length) return true;
  const levels = new Map(before.map(({ peer, level_dbov: level }) => [peer, level]));
  return now.some(({ peer, level_dbov: level }) => {
    const previous = levels.get(peer);
    if (level === undefined) return previous !== undefined || !levels.has(peer);
    return previous === undefined || Math.abs(level - previous) >= LEVEL_STEP_DB;
  });
}
