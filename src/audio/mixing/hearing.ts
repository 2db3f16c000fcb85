import { type AudioFormat, type Delivery, formatAudioFormat } from '../format.ts';
import type { PlannedMix, SpeakerId } from './mix-plan.ts';

/** How somebody hears the room. */
export type Hearing = {
  format: AudioFormat;
  delivery: Delivery;
  /** By peer: what its sound is multiplied by; 1 for who is not in it. */
  volume: Record<string, number>;
};

/** Somebody who hears the room over a WebSocket. */
export type Listener = Hearing & {
  /** The peer, who never hears himself: the same name as that of his {@link HeardSpeaker}. */
  peer: string;
  /** Takes one binary frame in the listener's format. */
  deliver(frame: Buffer): void;
  /** So much of what it hears was made up. */
  concealed(samples: number): void;
};

export type HeardSpeaker = {
  id: SpeakerId;
  peer: string;
  /** Its packets last longer than a tick: they cannot go out as they are at the pace of the mix. */
  isLong: boolean;
  /** Mixed for somebody, and so played: forwarded at the pace of the mix, until it falls silent. */
  isPlayed: boolean;
};

/** Somebody hears some speakers in another way from now on: a mix of his own, of this name, goes on from what he has heard. */
export type Change = {
  name: string;
  /** What those were multiplied by whom he may have heard. */
  before: ReadonlyMap<SpeakerId, number>;
};

/** A mix, and who hears it, by format. */
export type PlannedHearing = { planned: PlannedMix; listeners: Map<string, Listener[]> };

/** Who hears what: all that goes out of a room. */
type HearingPlan<Speaker> = {
  /** By name. */
  mixes: Map<string, PlannedHearing>;
  /** Who hears one speaker only, whose packets can go out as they are. */
  asSent: Map<Speaker, Listener[]>;
  /** Who wants every speaker apart. */
  apart: Listener[];
};

/**
 * Works out who hears what. Who hears the same shares a mix.
 * @param mixed those who are to be heard, always in the same order
 */
export function planHearing<Speaker extends HeardSpeaker>(
  listeners: Iterable<Listener>,
  mixed: Speaker[],
  changes: ReadonlyMap<Listener, Change>,
): HearingPlan<Speaker> {
  const plan: HearingPlan<Speaker> = { mixes: new Map(), asSent: new Map(), apart: [] };
  for (const listener of listeners) {
    if (listener.delivery === 'forward') plan.apart.push(listener);
    else planListener(listener, mixed, changes.get(listener), plan);
  }
  return plan;
}

function planListener<Speaker extends HeardSpeaker>(
  listener: Listener,
  mixed: Speaker[],
  change: Change | undefined,
  plan: HearingPlan<Speaker>,
): void {
  const without: SpeakerId[] = [];
  const gains: [SpeakerId, number][] = [];
  const gainsBefore: [SpeakerId, number][] = [];
  const heard: Speaker[] = [];
  for (const speaker of mixed) {
    const gain = gainOf(listener, speaker);
    const before = change?.before.get(speaker.id) ?? gain;
    if (gain > 0) heard.push(speaker);
    if (gain === 0) without.push(speaker.id);
    else if (gain !== 1) gains.push([speaker.id, gain]);
    if (before !== gain) gainsBefore.push([speaker.id, before]);
  }
  const isChanged = gainsBefore.length > 0;
  const [first] = heard;
  if (!first && !isChanged) return;
  const isAsSent = heard.length === 1 && gains.length === 0 && !isChanged;
  const canForward = first && (!first.isLong || (mixed.length === 1 && !first.isPlayed));
  if (isAsSent && canForward && listener.format.codec === 'opus') {
    addTo(plan.asSent, first, listener);
    return;
  }
  const sum = [without.join(), gains.map((gain) => gain.join('*')).join()].join(' ');
  const name = change && isChanged ? change.name : sum;
  let mix = plan.mixes.get(name);
  if (!mix) {
    mix = { planned: { name, without, gains, gainsBefore, formats: [] }, listeners: new Map() };
    plan.mixes.set(name, mix);
  }
  const format = formatAudioFormat(listener.format);
  if (!mix.listeners.has(format)) mix.planned.formats.push(format);
  addTo(mix.listeners, format, listener);
}

/** What a listener hears a speaker times. Names are the clients', and may be those of what every object has. */
export function gainOf({ peer, volume }: Listener, speaker: HeardSpeaker): number {
  if (speaker.peer === peer) return 0;
  return Object.hasOwn(volume, speaker.peer) ? volume[speaker.peer]! : 1;
}

function addTo<Key>(lists: Map<Key, Listener[]>, key: Key, listener: Listener): void {
  const list = lists.get(key);
  if (list) list.push(listener);
  else lists.set(key, [listener]);
}
