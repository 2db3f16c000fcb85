import { type AudioFormat, type Delivery, formatAudioFormat } from '../format.ts';
import type { PlannedMix, SpeakerId } from './mix-plan.ts';

/** How somebody hears the room. */
export type Subscription = {
  format: AudioFormat;
  delivery: Delivery;
  /** By peer: what its sound is multiplied by; 1 for who is not in it. */
  volume: Record<string, number>;
};

/** Peer that hears the room over a WebSocket. */
export type Listener = Subscription & {
  /** Name of the peer, which never hears itself: the same as that of its {@link HeardSpeaker}. */
  peer: string;
  /** Name of the only peer that the listener hears; undefined if it hears all. */
  only?: string | undefined;
  /** Takes no packets that are longer than a tick. */
  takesShortOnly?: boolean;
  /** Takes one binary frame in the listener's format. */
  deliver(frame: Buffer): void;
  /** Takes the number of samples that were made up in what it hears. */
  concealed(samples: number): void;
  /** The room has too many mixes of listeners' own: this listener hears the one that is shared, whatever its volumes are. */
  volumeLimited?(): void;
};

/**
 * Maximum number of mixes in a room that are made because of volumes. Each costs an encoder, about 0.35 % of a core, for as long
 * as somebody talks. Mixes that leave out nobody but the listener itself are shared and not counted.
 */
const MAX_OWN_MIXES = 20;

export type HeardSpeaker = {
  id: SpeakerId;
  peer: string;
  /** Stands in the head of frames that are forwarded apart. */
  number: number;
  /** Its packets last longer than a tick: they cannot go out as they are at the pace of the mix. */
  isLong: boolean;
  /** Packets of it get lost that a mix can recover: it does not go out as it is. */
  isLossy: boolean;
  /** Mixed for somebody, and so played: forwarded at the pace of the mix, until it falls silent. */
  isPlayed: boolean;
  /** Listeners whose decoders have followed its packets until now, and can go on. */
  followers: ReadonlySet<Listener>;
  /** The same of those who want every speaker apart. */
  apartFollowers: ReadonlySet<Listener>;
  /** Its first packet is about to come: a decoder that has heard nothing before can begin with it. */
  isNew: boolean;
};

/** State of the speakers, as far as it matters for subscriptions. */
export type Scene<Speaker> = {
  /** Speakers that are to be heard, always in the same order. */
  mixed: Speaker[];
  /** Speakers that have talked and are in a pause: a listener that hears nobody else goes on hearing the first of them. */
  pausing: Speaker[];
  /** Speakers that pause: a decoder may begin with their packets now, and misses nothing that would be heard. */
  open: ReadonlySet<Speaker>;
  /** Listeners that have been sent something: their decoders do not expect the beginning of a stream. */
  begun: { has(listener: Listener): boolean };
  changes: ReadonlyMap<Listener, Change>;
};

/** Change of how a listener hears some speakers: a mix of its own, of this name, goes on from what it has heard. */
export type Change = {
  name: string;
  /** Gains before the change, of the speakers that the listener may have heard. */
  before: ReadonlyMap<SpeakerId, number>;
};

/** Takes frames of a mix. */
export type Ear = {
  listener: Listener;
  /** Number of the speaker whose head goes before each frame, for a listener that wants each apart. */
  number: number | undefined;
  /** Speaker whose packets this listener could hear as they are, could its decoder begin with them. */
  awaits: SpeakerId | undefined;
};

/** A mix, and who hears it, by format. */
export type PlannedSubscription = { planned: PlannedMix; ears: Map<string, Ear[]> };

/** Subscriptions of all listeners: all that goes out of a room. */
export type SubscriptionPlan<Speaker> = {
  /** By name. */
  mixes: Map<string, PlannedSubscription>;
  /** Listeners that hear one speaker only, whose packets can go out as they are. */
  asSent: Map<Speaker, Set<Listener>>;
  /** Listeners that want every speaker apart, and get the packets of this one as they are. */
  apart: Map<Speaker, Set<Listener>>;
  /** Listeners whose volumes do not apply, because there are too many mixes of their own. */
  limited: Listener[];
};

/** A plan that is being made. */
type UnfinishedPlan<Speaker> = SubscriptionPlan<Speaker> & { ownMixes: number };

/** Works out what each listener hears. Listeners that hear the same share a mix. */
export function planSubscriptions<Speaker extends HeardSpeaker>(
  listeners: Iterable<Listener>,
  scene: Scene<Speaker>,
): SubscriptionPlan<Speaker> {
  const plan: UnfinishedPlan<Speaker> = {
    mixes: new Map(),
    asSent: new Map(),
    apart: new Map(),
    limited: [],
    ownMixes: 0,
  };
  for (const listener of listeners) {
    if (listener.delivery === 'forward') planApart(listener, scene, plan);
    else planListener(listener, scene, plan);
  }
  return plan;
}

function planApart<Speaker extends HeardSpeaker>(
  listener: Listener,
  { mixed, pausing, open }: Scene<Speaker>,
  plan: SubscriptionPlan<Speaker>,
): void {
  for (const speaker of pausing) {
    if (gainOf(listener, speaker) > 0) addTo(plan.apart, speaker, listener);
  }
  for (const speaker of mixed) {
    if (gainOf(listener, speaker) === 0) continue;
    // At the pace of the mix a decoder would miss what is not mixed yet.
    const mayBegin = speaker.isNew || (open.has(speaker) && !speaker.isPlayed);
    if (!speaker.isLossy && (mayBegin || speaker.apartFollowers.has(listener))) {
      addTo(plan.apart, speaker, listener);
      continue;
    }
    const without = mixed.filter((other) => other !== speaker).map(({ id }) => id);
    const ear = {
      listener,
      number: speaker.number,
      awaits: speaker.isLossy ? undefined : speaker.id,
    };
    addEar(plan, { without, gains: [], gainsBefore: [] }, ear);
  }
}

function planListener<Speaker extends HeardSpeaker>(
  listener: Listener,
  { mixed, pausing, open, begun, changes }: Scene<Speaker>,
  plan: UnfinishedPlan<Speaker>,
): void {
  const change = changes.get(listener);
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
  const isOpus = listener.format.codec === 'opus';
  if (!first && !isChanged) {
    const paused = isOpus ? pausingFor(listener, pausing) : undefined;
    if (paused) addTo(plan.asSent, paused, listener);
    return;
  }
  const isAsSent = isOpus && heard.length === 1 && gains.length === 0 && !isChanged;
  const takesLong = mixed.length === 1 && !listener.takesShortOnly;
  const canBeAsSent = first && !first.isLossy && (!first.isLong || takesLong);
  const alone = isAsSent && canBeAsSent ? first : undefined;
  if (alone && !(alone.isLong && alone.isPlayed)) {
    const mayBegin = open.has(alone) || (alone.isNew && !begun.has(listener));
    if (mayBegin || alone.followers.has(listener)) {
      addTo(plan.asSent, alone, listener);
      return;
    }
  }
  const ear = { listener, number: undefined, awaits: alone?.id };
  const own = mixed.filter(({ peer }) => peer === listener.peer).map(({ id }) => id);
  // Listeners of one speaker share a mix; there are at most as many such mixes as mixed speakers.
  const isOwn =
    isChanged || gains.length > 0 || (without.length > own.length && listener.only === undefined);
  const name = change && isChanged ? change.name : nameOf({ without, gains });
  if (isOwn && !plan.mixes.has(name)) {
    if (plan.ownMixes === MAX_OWN_MIXES) {
      plan.limited.push(listener);
      addEar(plan, { without: own, gains: [], gainsBefore: [] }, { ...ear, awaits: undefined });
      return;
    }
    plan.ownMixes += 1;
  }
  addEar(plan, { without, gains, gainsBefore }, ear, name);
}

/** Returns the speaker whose packets a listener is sent while none of those that it hears talks. */
function pausingFor<Speaker extends HeardSpeaker>(
  listener: Listener,
  pausing: Speaker[],
): Speaker | undefined {
  const canHear = pausing.filter(
    (speaker) =>
      gainOf(listener, speaker) === 1 && !(speaker.isLong && listener.takesShortOnly === true),
  );
  return canHear.find(({ followers }) => followers.has(listener)) ?? canHear[0];
}

/** Lets a listener hear a sum; `name` is of one that nobody else hears. */
function addEar<Speaker>(
  { mixes }: SubscriptionPlan<Speaker>,
  { without, gains, gainsBefore }: Pick<PlannedMix, 'without' | 'gains' | 'gainsBefore'>,
  ear: Ear,
  name = nameOf({ without, gains }),
): void {
  let mix = mixes.get(name);
  if (!mix) {
    mix = { planned: { name, without, gains, gainsBefore, formats: [] }, ears: new Map() };
    mixes.set(name, mix);
  }
  const format = formatAudioFormat(ear.listener.format);
  const ears = mix.ears.get(format);
  if (ears) {
    ears.push(ear);
    return;
  }
  mix.planned.formats.push(format);
  mix.ears.set(format, [ear]);
}

/** Name of a sum, the same for all who hear the same. */
const nameOf = ({ without, gains }: Pick<PlannedMix, 'without' | 'gains'>): string =>
  [without.join(), gains.map((gain) => gain.join('*')).join()].join(' ');

/** Returns the gain at which a listener hears a speaker. Names are the clients', and may be those of what every object has. */
export function gainOf(
  { peer, volume, only }: Listener,
  speaker: Pick<HeardSpeaker, 'peer'>,
): number {
  if (speaker.peer === peer || (only !== undefined && speaker.peer !== only)) return 0;
  return Object.hasOwn(volume, speaker.peer) ? volume[speaker.peer]! : 1;
}

function addTo<Key>(sets: Map<Key, Set<Listener>>, key: Key, listener: Listener): void {
  const set = sets.get(key);
  if (set) set.add(listener);
  else sets.set(key, new Set([listener]));
}
