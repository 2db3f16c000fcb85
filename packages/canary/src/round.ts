import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeChirp } from './chirp.ts';
import { compare, type Comparison } from './compare.ts';
import type { Target } from './connection.ts';
import { Microphone } from './microphone.ts';
import { type CanaryPeer, KINDS, type PeerKind } from './peer.ts';
import { roomAt } from './rooms.ts';
import { opusVoice, pcmVoice } from './voice.ts';
import { WebRtcPeer } from './webrtc-peer.ts';
import { WebSocketPeer } from './websocket-peer.ts';

/** One direction of audio: from a peer of one kind to a peer of one kind. */
export type Direction = { from: PeerKind; to: PeerKind };

/** Result of one round. */
export type Round = {
  at: Date;
  /** All directions, in the same order each time. */
  directions: (Direction & Comparison)[];
  /** The peers that joined. */
  joins: { kind: PeerKind; joinMs: number; path: string }[];
  /** Sentences about what failed. */
  faults: string[];
  /** Time of all peers in the room, in s, for which the account is charged. */
  peerSeconds: number;
};

/** Time for the gateway to find the pace of the speakers. */
const SETTLING_MS = 400;
/** Delay beyond which audio counts as lost. */
const TAIL_MS = 600;

const SILENCE: Comparison = {
  isSilent: true,
  lostShare: 1,
  mouthToEarMs: undefined,
  levelDb: undefined,
};

/**
 * Runs a round: four peers, two of each kind, join a room of the canary; one of each kind speaks in turn, and
 * the other two listen.
 * @throws {DOMException} if it is aborted; all other faults are part of the result
 */
export async function runRound(
  target: Pick<Target, 'url' | 'key'>,
  signal: AbortSignal,
): Promise<Round> {
  const at = new Date();
  const company = new Company({ ...target, room: roomAt(at.getTime()), stopped: signal });
  const [speakers, listeners] = await Promise.all([
    company.join('speaker'),
    company.join('listener'),
  ]);
  try {
    signal.throwIfAborted();
    const microphones = await company.speak(speakers);
    for (const ear of listeners.values()) {
      for (const mouth of speakers.values()) await ear.untilHears(mouth.name);
    }
    await sleep(SETTLING_MS, undefined, { signal });
    const directions: Round['directions'] = [];
    for (const from of KINDS) {
      const mouth = speakers.get(from);
      const microphone = microphones.get(from);
      if (!mouth || !microphone) {
        directions.push(...KINDS.map((to) => ({ from, to, ...SILENCE })));
        continue;
      }
      for (const ear of listeners.values()) ear.listen();
      const played = { samples: makeChirp(), sentAtMs: await microphone.play() };
      await sleep(TAIL_MS, undefined, { signal });
      for (const to of KINDS) {
        const heard = await listeners.get(to)?.heard(mouth.name);
        directions.push({ from, to, ...(heard ? compare(played, heard) : SILENCE) });
      }
    }
    return { at, directions, ...company.account() };
  } finally {
    await company.close();
  }
}

/** The peers of a round, with names that no other round uses. */
class Company {
  readonly #target: Target;
  readonly #id = `canary-${randomBytes(6).toString('hex')}`;
  readonly #members: { peer: CanaryPeer; sinceMs: number }[] = [];
  readonly #microphones: Microphone[] = [];
  readonly #faults: string[] = [];

  constructor(target: Target) {
    this.#target = target;
  }

  /** Joins the peers; one that cannot join, or is told of an error or disconnected before {@link close}, is a fault of the round. */
  async join(role: string): Promise<Map<PeerKind, CanaryPeer>> {
    const joined = new Map<PeerKind, CanaryPeer>();
    const join = async (kind: PeerKind): Promise<void> => {
      let isNoted = false;
      const note = (fault: unknown) => {
        // The close that follows an error is its consequence.
        if (isNoted) return;
        isNoted = true;
        const reason = fault instanceof Error ? fault.message : String(fault);
        this.#faults.push(`${kind} ${role}: ${reason}`);
      };
      const name = `${this.#id}-${kind}-${role}`;
      try {
        const peer =
          kind === 'websocket'
            ? await WebSocketPeer.join(this.#target, name)
            : await WebRtcPeer.join(this.#target, name);
        peer.onFault = note;
        joined.set(kind, peer);
        this.#members.push({ peer, sinceMs: performance.now() });
      } catch (fault) {
        note(fault);
      }
    };
    await Promise.all(KINDS.map(join));
    return joined;
  }

  /** Opens the microphones of the speakers. */
  async speak(speakers: Map<PeerKind, CanaryPeer>): Promise<Map<PeerKind, Microphone>> {
    const voices = { websocket: pcmVoice(), webrtc: await opusVoice() };
    const opened = [...speakers].map(
      ([kind, peer]) => [kind, new Microphone(voices[kind], (frame) => peer.send(frame))] as const,
    );
    this.#microphones.push(...opened.map(([, microphone]) => microphone));
    return new Map(opened);
  }

  account(): Pick<Round, 'joins' | 'faults' | 'peerSeconds'> {
    const nowMs = performance.now();
    const seconds = this.#members.map(({ sinceMs }) => (nowMs - sinceMs) / 1000);
    return {
      joins: this.#members.map(({ peer: { kind, joinMs, path } }) => ({ kind, joinMs, path })),
      faults: this.#faults,
      peerSeconds: seconds.reduce((sum, each) => sum + each, 0),
    };
  }

  async close(): Promise<void> {
    for (const microphone of this.#microphones) microphone.close();
    const closing = this.#members.map(({ peer }) => {
      peer.onFault = () => {};
      return peer.close();
    });
    await Promise.all(closing);
  }
}
