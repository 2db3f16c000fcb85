import type { FastifyBaseLogger } from 'fastify';
import type { FrameClock } from '../audio/clock.ts';
import { FORWARD_HEAD_BYTES } from '../audio/mixing/forward-frame.ts';
import type { Listener } from '../audio/mixing/subscriptions.ts';
import type { RoomMixer } from '../audio/mixing/room-mixer.ts';
import { opusPacketSamples } from '../audio/opus-packet.ts';
import { type Route, Uplink, type UplinkTimings } from '../bridge/uplink.ts';
import type { RoomRouter } from '../media/room-router.ts';
import { ECHO_ROOM } from '../protocol/names.ts';

/** Time after which a peer hears what it said. */
const DELAY_MS = 1000;
/** Level of an echoed packet that comes out of a mix, which has no level of its own, −dBov: it counts as talk. */
const MIXED_LEVEL = 30;

/** Name of the echoing speaker in an echo room. No peer may have such a name. */
export const ECHO_PEER = ECHO_ROOM;

/** Name of the echo room of one peer: each is alone in its own, under a name that no other room may have. */
export const echoRoomOf = (peer: string): string => `${ECHO_ROOM} ${peer}`;
export const isEchoRoom = (room: string): boolean => room.startsWith(`${ECHO_ROOM} `);

export type EchoParts = {
  mixer: RoomMixer;
  clock: FrameClock;
  router: () => RoomRouter;
  route: Route;
  uplinkTimings: UplinkTimings;
  onProducer: (producerId: string) => void;
  log: FastifyBaseLogger;
};

/** Repeats all audio of its room a second later: a listener that gets every packet, and a speaker that sends it again. */
export class Echo {
  readonly #mixer: RoomMixer;
  readonly #clock: FrameClock;
  readonly #uplink: Uplink;
  readonly #held: { send: () => void; dueMs: number }[] = [];
  readonly #listener: Listener = {
    peer: ECHO_PEER,
    format: { codec: 'opus' },
    delivery: 'forward',
    volume: {},
    deliver: (frame, level) => this.#hold(frame.subarray(FORWARD_HEAD_BYTES), level),
    concealed: () => {},
  };

  /** @param speaker number of the peer in forwarded frames, because it hears itself */
  constructor(parts: EchoParts, speaker: number) {
    const { mixer, clock, router, route, uplinkTimings, onProducer, log } = parts;
    this.#mixer = mixer;
    this.#clock = clock;
    const heardThere = { mixer, peer: ECHO_PEER };
    this.#uplink = new Uplink(() => router().plainLeg, route, heardThere, clock, uplinkTimings, {
      onProducer: async (producerId) => onProducer(producerId),
      onFlow: () => {},
      onFault: (fault) => log.warn({ err: fault }, 'echo failed'),
    });
    mixer.addSpeaker(ECHO_PEER, speaker);
    mixer.addListener(this.#listener);
  }

  /** Continues on the new media worker after the old one died. */
  reset(): void {
    this.#uplink.reset();
  }

  close(): void {
    this.#clock.remove(this.#onTick);
    this.#mixer.removeListener(this.#listener);
    this.#mixer.removeSpeaker(ECHO_PEER);
    this.#uplink.close();
  }

  /** Schedules a packet for a second later, in the order of arrival. */
  later(send: () => void): void {
    this.#held.push({ send, dueMs: performance.now() + DELAY_MS });
    this.#clock.add(this.#onTick);
  }

  /** Holds a packet. The packets of a pause come here, too, and are a pause again. */
  #hold(payload: Buffer, level = MIXED_LEVEL): void {
    const dueMs = performance.now() + DELAY_MS;
    const samples = opusPacketSamples(payload) ?? 0;
    if (samples > 0) this.later(() => this.#uplink.send(payload, samples, level, dueMs));
  }

  readonly #onTick = (nowMs: number): void => {
    for (let next = this.#held[0]; next && next.dueMs <= nowMs; next = this.#held[0]) {
      this.#held.shift();
      next.send();
    }
    if (this.#held.length === 0) this.#clock.remove(this.#onTick);
  };
}
