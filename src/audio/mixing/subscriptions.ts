import { type AudioFormat, type Delivery, formatAudioFormat } from '../format.ts';
import { nameOf, type PlannedMix, type SpeakerId } from './mix-plan.ts';

/** Settings by which a listener hears the room. */
export type Subscription = {
  format: AudioFormat;
  delivery: Delivery;
  /** Gain by peer, a factor; 1 for peers that are missing. */
  volume: Record<string, number>;
};

/** Receiver of the room's mixer: a WebSocket peer, a WHEP player, or the echo. */
export type Listener = Subscription & {
  /** Name of the peer, equal to that of its {@link HeardSpeaker}: a peer never hears itself. */
  peer: string;
  /** Name of the only peer that the listener hears; undefined if it hears all. */
  only?: string | undefined;
  /** True if the listener accepts no packets longer than a tick. */
  takesShortOnly?: boolean;
  /**
   * Delivers one binary frame in the listener's format.
   * @param audioLevel level of a packet that is forwarded separately and unchanged; undefined for other frames
   */
  deliver(frame: Buffer, audioLevel?: number): void;
  /** Called with the number of concealed samples in the audio that the listener hears. */
  concealed(samples: number): void;
  /** Called when the room has too many individual mixes: this listener hears the shared mix instead, without its volumes. */
  volumeLimited?(): void;
};

/**
 * Maximum number of individual mixes in a room, which volumes require. Each costs an encoder, about 0.35 % of a core, as long
 * as a speaker talks. Mixes that leave out only the listener itself are shared and not counted.
 */
const MAX_OWN_MIXES = 20;

export type HeardSpeaker = {
  id: SpeakerId;
  peer: string;
  /** Speaker number in the header of frames that are forwarded separately. */
  number: number;
  /** True if its packets last longer than a tick: they cannot be forwarded unchanged at the pace of the mix. */
  isLong: boolean;
  /** True if its packets are not forwarded unchanged: some get lost, and a mix can recover them, or they come too early, and a mix bounds that. */
  needsMix: boolean;
  /** True while a listener hears the speaker in a mix: its packets are forwarded at the pace of the mix, until it falls silent. */
  isPlayed: boolean;
  /** Listeners whose decoders have received its packets until now, and can continue with them. */
  followers: ReadonlySet<Listener>;
  /** Followers that receive every speaker separately. */
  apartFollowers: ReadonlySet<Listener>;
  /** True if its first packet is still to come: a decoder that has received nothing before can begin with it. */
  isNew: boolean;
};

/** State of the speakers, as far as it matters for subscriptions. */
export type Scene<Speaker> = {
  /** Speakers to be heard, always in the same order. */
  mixed: Speaker[];
  /** Speakers that have talked and pause: a listener that hears no other speaker continues to hear the first of them. */
  pausing: Speaker[];
  /** Speakers that pause: a decoder may begin with their packets now without missing audible history. */
  open: ReadonlySet<Speaker>;
  /** Listeners that have received a frame: their decoders do not expect the beginning of a stream. */
  begun: { has(listener: Listener): boolean };
  changes: ReadonlyMap<Listener, Change>;
};

/** Change of the gains of a listener: an individual mix of this name continues from the audio that it has heard. */
export type Change = {
  name: string;
  /** Gains before the change, of the speakers that the listener may have heard. */
  before: ReadonlyMap<SpeakerId, number>;
};

/** Receiver of the frames of a mix. */
export type Ear = {
  listener: Listener;
  /** Number of the speaker in the header of each frame, for a listener that receives each speaker separately. */
  number: number | undefined;
  /** Speaker whose packets this listener could receive unchanged, if its decoder could begin with them. */
  awaits: SpeakerId | undefined;
};

/** A mix, and its listeners by format. */
export type PlannedSubscription = { planned: PlannedMix; ears: Map<string, Ear[]> };

/** Subscriptions of all listeners: the complete output of a room. */
export type SubscriptionPlan<Speaker> = {
  /** Mixes by name. */
  mixes: Map<string, PlannedSubscription>;
  /** Listeners that hear only one speaker, whose packets can be forwarded unchanged. */
  asSent: Map<Speaker, Set<Listener>>;
  /** Listeners that receive every speaker separately, and the packets of this one unchanged. */
  apart: Map<Speaker, Set<Listener>>;
  /** Listeners whose volumes do not apply, because there are too many individual mixes. */
  limited: Listener[];
};

/** A plan under construction. */
type UnfinishedPlan<Speaker> = SubscriptionPlan<Speaker> & { ownMixes: number };

/** Computes the subscription of each listener. Listeners that hear the same share a mix. */
export function planSubscriptions<Speaker extends HeardSpeaker>(
  listeners: Iterable<Listener>,
  scene: Scene<Speaker>,
): SubscriptionPlan<Speaker> {
  const plan = planAll(listeners, scene, new Set());
  // A listener that leaves a long packet for a mix would hear up to 100 ms of it again: it hears
  // the mix from the beginning.
  const beginning = scene.mixed.filter(
    (speaker) =>
      speaker.isLong &&
      !speaker.isPlayed &&
      plan.asSent.has(speaker) &&
      isMixed(speaker.id, plan.mixes),
  );
  return beginning.length > 0 ? planAll(listeners, scene, new Set(beginning)) : plan;
}

/** True if a listener hears a speaker in a mix, or has done until now. */
export function isMixed(id: SpeakerId, mixes: ReadonlyMap<string, PlannedSubscription>): boolean {
  return [...mixes.values()].some(
    ({ planned: { without, gainsBefore } }) =>
      !without.includes(id) || gainsBefore.some(([other]) => other === id),
  );
}

/** @param beginning speakers that are played from now on, because a listener hears them in a mix */
function planAll<Speaker extends HeardSpeaker>(
  listeners: Iterable<Listener>,
  scene: Scene<Speaker>,
  beginning: ReadonlySet<Speaker>,
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
    else planListener(listener, scene, plan, beginning);
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
    // At the pace of the mix a decoder would miss the packets that are not mixed yet.
    const mayBegin = speaker.isNew || (open.has(speaker) && !speaker.isPlayed);
    if (!speaker.needsMix && (mayBegin || speaker.apartFollowers.has(listener))) {
      addTo(plan.apart, speaker, listener);
      continue;
    }
    const without = mixed.filter((other) => other !== speaker).map(({ id }) => id);
    const ear = {
      listener,
      number: speaker.number,
      awaits: speaker.needsMix ? undefined : speaker.id,
    };
    addEar(plan, { without, gains: [], gainsBefore: [] }, ear);
  }
}

function planListener<Speaker extends HeardSpeaker>(
  listener: Listener,
  { mixed, pausing, open, begun, changes }: Scene<Speaker>,
  plan: UnfinishedPlan<Speaker>,
  beginning: ReadonlySet<Speaker>,
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
  const canBeAsSent = first && !first.needsMix && (!first.isLong || takesLong);
  const alone = isAsSent && canBeAsSent ? first : undefined;
  if (alone && !(alone.isLong && (alone.isPlayed || beginning.has(alone)))) {
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

/** Returns the speaker whose packets a listener receives while none of its speakers talks. */
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

/** Adds a listener to a mix; `name` is that of an individual mix. */
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

/** Returns the gain at which a listener hears a speaker. Clients choose the names, which may be those of inherited properties of objects. */
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

/** Returns listeners with `after` as a further one, if `before` is one of them. */
export function replaced(
  listeners: ReadonlySet<Listener>,
  before: Listener,
  after: Listener,
): ReadonlySet<Listener> {
  return listeners.has(before) ? new Set([...listeners, after]) : listeners;
}
