import type { Codecs } from '../audio/codecs.ts';
import {
  answerTo,
  canBeginAnywhere,
  type DeclaredFormat,
  type Delivery,
  formatAudioFormat,
  type InputFormat,
  type OutputFormat,
  parseDeclaredFormat,
  parseOutputFormat,
} from '../audio/format.ts';
import { quantizeGain } from '../audio/gain.ts';
import { AudioInput } from '../audio/ingest/input.ts';
import type { OpusOutlet, OpusSink } from '../audio/ingest/ingest.ts';
import type { LastPackets } from '../audio/ingest/splice.ts';
import { counts } from '../counters.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { ClientMessages } from '../protocol/client-messages.ts';
import type {
  AudioDescription,
  ServerMessage,
  SettingsDescription,
  Stats,
} from '../protocol/messages.ts';
import type { PeerSubscription, WebSocketPeer } from '../rooms/websocket-peer.ts';
import { bytesPerSecondOf } from './audio-budget.ts';
import type { AudioSettings } from './audio-settings.ts';
import { HeldAudio, type Turn } from './held-audio.ts';
import { RelayIntake } from './relay-intake.ts';

/** In one message or in many. */
const MAX_VOLUMES = 1000;
/** Seconds of sound that are held of a client on its way into a room: a burst of two seconds, and a slow join. */
const MAX_HELD_SECONDS = 3;
/** Least limit of the held bytes: a format of few bytes may come in large messages. */
const MIN_MAX_HELD_BYTES = 128 * 1024;

/** Wishes of a client for its audio, before it has said or sent anything else. */
export type AudioPreferences = {
  in: DeclaredFormat;
  /** Undefined: as it speaks. */
  out: OutputFormat | undefined;
  delivery: Delivery;
  /** Format that it hears while that of its own sound is unknown; undefined if nobody has said that: Opus, or relayed messages. */
  unknownOut: OutputFormat | undefined;
};

type Outlet = {
  /** True if the client may be in a room in a moment. */
  readonly isJoining: boolean;
  notify(message: ServerMessage): void;
  fail(fault: unknown): void;
  /** Sends a message of an unknown format, as it came. */
  sendRelayed(message: Buffer): void;
  /** {@link ClientAudio.settings} are not what they were. Resolves when they are kept for when the client comes back. */
  settingsChanged(): Promise<void>;
};

/** The audio of one client, from its connection to its end: what it sends, and how it wants to hear, in whatever room. */
export class ClientAudio {
  readonly #codecs: Codecs;
  readonly #turn: Turn;
  readonly #client: Outlet;
  #preferences: AudioPreferences;
  #input: AudioInput;
  /** Format that was found out before the client resumed its session. */
  #detectedBefore: InputFormat | undefined;
  readonly #intake: RelayIntake;
  #volume: Record<string, number> = {};
  /** {@link ClientAudio.#volume} as it is applied. */
  #gains: Record<string, number> = {};
  /** Format for which the budget was worked out. */
  #pricedFormat: InputFormat | undefined;
  #bytesPerSecond = bytesPerSecondOf(undefined);
  #isVolumeLimited = false;
  #isConfiguring = false;
  #isMuted = false;
  /** The client has been told that its format is unknown: once. */
  #isToldUnknown = false;
  #peer: WebSocketPeer | undefined;
  /** Leads the packets of the client into its room. */
  readonly #outlet: OpusOutlet = { sink: toNobody };
  #inRoomSinceMs = -Infinity;
  /** Messages that came while the client was on its way into a room. */
  readonly #held: HeldAudio;
  #saved: Promise<void> = Promise.resolve();
  /** In the rooms before this one. */
  #before = { droppedMs: 0, concealedMs: 0 };

  /**
   * @param settings of the session that the client resumes; they win over its preferences
   * @param turn of the client's account among others
   */
  constructor(
    preferences: AudioPreferences,
    settings: AudioSettings | undefined,
    codecs: Codecs,
    turn: Turn,
    client: Outlet,
  ) {
    this.#turn = turn;
    this.#held = new HeldAudio(({ message, atMs }) => this.#input.push(message, atMs), turn);
    this.#preferences = preferences;
    this.#codecs = codecs;
    this.#client = client;
    if (settings) {
      const { in: declared, out, delivery } = settings;
      const answer = settings.detected && answerTo(settings.detected);
      const unknownOut = answer ?? preferences.unknownOut;
      this.#preferences = { in: declared, out, delivery, unknownOut };
      this.#volume = settings.volume;
      this.#gains = quantized(settings.volume);
      this.#isMuted = settings.isMuted;
      this.#detectedBefore = settings.detected;
    }
    this.#intake = new RelayIntake(() => this.#intakeState, settings?.firstHeard);
    this.#input = this.#openInput(undefined, settings?.detected);
  }

  get settings(): AudioSettings {
    const { in: declared, out, delivery } = this.#preferences;
    const { firstHeard } = this.#intake;
    return {
      in: declared,
      detected: this.#detected,
      out,
      delivery,
      volume: this.#volume,
      isMuted: this.#isMuted,
      ...(firstHeard && { firstHeard }),
    };
  }

  /** Format that is worth keeping for when the client comes back; a WAVE file does not say again what is in it. */
  get #detected(): InputFormat | undefined {
    const { format } = this.#input;
    const isTelling = format && (format.codec !== 'wav' || format.inside);
    const detected = isTelling ? format : (this.#detectedBefore ?? format);
    return this.#preferences.in === 'auto' || detected?.codec === 'wav' ? detected : undefined;
  }

  /**
   * Takes notice that a frame of sound is there for the client. The hot path: runs for every frame.
   * @returns false while nobody can tell what the client understands: what it is sent might be noise to it
   */
  admitSound(): boolean {
    const isFormatUnknown =
      this.#preferences.out === undefined && this.#input.isFormatUnknown(performance.now());
    if (!isFormatUnknown) this.#intake.soundSent();
    return !isFormatUnknown;
  }

  /** False while the client is sent sound of known formats. */
  get takesRelayed(): boolean {
    return this.#intake.intake !== 'sound';
  }

  /** Takes a message of an unknown format that another client has sent. */
  takeRelayed(message: Buffer): void {
    this.#sendRelayed(() => this.#intake.take(message, performance.now()));
  }

  /** Sends messages that were held for the client, in its turn, if nothing speaks against it any more. To be called every now and then. */
  settleRelayed(): void {
    if (!this.#intake.holds) return;
    this.#turn.take(() => this.#sendRelayed(() => this.#intake.settle(performance.now())));
  }

  #sendRelayed(takeDue: () => Buffer[]): void {
    const heardBefore = this.#intake.firstHeard;
    const due = takeDue();
    const { firstHeard } = this.#intake;
    if (firstHeard !== heardBefore) {
      // It hears no sound from now on.
      this.#peer?.subscribe(this.subscription);
      this.#saved = this.#client.settingsChanged();
    }
    for (const each of due) this.#client.sendRelayed(each);
  }

  /** Nothing that the client says is heard. */
  get isMuted(): boolean {
    return this.#isMuted;
  }

  get subscription(): PeerSubscription {
    const { out, delivery, unknownOut } = this.#preferences;
    const { format } = this.#input;
    const output = out ?? (format && answerTo(format)) ?? unknownOut;
    // Forwarded is what the speakers sent: Opus.
    const isOpus = !output || output.codec === 'opaque' || delivery === 'forward';
    return {
      isRelayed: this.#intake.isRelayed,
      format: isOpus ? { codec: 'opus' } : output,
      delivery,
      volume: this.#gains,
    };
  }

  get #intakeState() {
    const { in: declared, out, delivery, unknownOut } = this.#preferences;
    return {
      out,
      format: this.#input.format,
      isFormatUnknown: this.#input.isFormatUnknown(performance.now()),
      hasSaidNothing: declared === 'auto' && delivery === 'mix' && unknownOut === undefined,
    };
  }

  /** Bytes that a second of what the client sends may take. */
  get bytesPerSecond(): number {
    const { format } = this.#input;
    if (format !== this.#pricedFormat) {
      this.#pricedFormat = format;
      this.#bytesPerSecond = bytesPerSecondOf(format);
    }
    return this.#bytesPerSecond;
  }

  describe(): AudioDescription {
    const { isRelayed, format, delivery } = this.subscription;
    const { in: declared } = this.#preferences;
    return {
      in: formatAudioFormat(this.#input.format ?? declared),
      out: formatAudioFormat(isRelayed ? { codec: 'opaque' } : format),
      delivery,
    };
  }

  /** Resolves when the last change of the settings is kept for when the client comes back, or could not be. */
  get saved(): Promise<void> {
    return this.#saved;
  }

  /** Content of `configured`, and of the `welcome` of a session that is resumed. */
  describeSettings(): SettingsDescription {
    const notApplied = this.#notApplied();
    return {
      audio: this.describe(),
      volume: this.#volume,
      mute: this.#isMuted,
      ...(Object.keys(notApplied).length > 0 && { not_applied: notApplied }),
    };
  }

  /** The room mixes nothing for this client alone until the client configures something, or joins another room: it is told once. */
  volumeLimited(): void {
    if (this.#isVolumeLimited) return;
    this.#isVolumeLimited = true;
    // The answer to `configure` tells it itself.
    if (!this.#isConfiguring)
      this.#client.notify({ type: 'configured', ...this.describeSettings() });
  }

  /** Sends what comes from now on, and what is held, into the room of `peer`, or into no room. */
  attach(peer: WebSocketPeer | undefined): void {
    // Messages that still wait for their turn were sent to the room that the client is in until now.
    if (this.#peer) this.#held.flush();
    const { droppedMs, concealedMs } = this.#audioStats();
    this.#before = { droppedMs, concealedMs };
    this.#peer = peer;
    this.#outlet.sink = peer?.sink ?? toNobody;
    if (!peer) this.#isVolumeLimited = false;
    if (!peer) this.#intake.reset();
    // Audio that was sent behind the join is meant for the room.
    this.#inRoomSinceMs = this.#held.sinceMs ?? performance.now();
    this.drainHeld();
  }

  /** How the client's audio has fared since it connected. */
  describeStats(): Pick<Stats, 'ingest_ms' | 'drift_ppm' | 'dropped_ms' | 'concealed_ms'> {
    const { droppedMs, concealedMs } = this.#audioStats();
    return {
      ingest_ms: Math.round(this.#peer?.audioStats.bufferedMs ?? 0),
      drift_ppm: Math.round(this.#peer?.audioStats.driftPpm ?? 0),
      dropped_ms: Math.round(droppedMs),
      concealed_ms: Math.round(concealedMs),
    };
  }

  /** Takes one binary message of at least one byte. A message that is not meant for a room is dropped. */
  receive(message: Buffer, nowMs: number): void {
    counts.framesIn += 1;
    if (this.#peer && this.#held.isEmpty) {
      this.#input.push(message, nowMs);
      return;
    }
    this.#held.hold({ message, atMs: nowMs });
    if (this.#peer) {
      this.#held.flushDownTo(this.#maxHeldBytes);
    } else if (!this.#client.isJoining || this.#held.bytes > this.#maxHeldBytes) {
      this.#passOverHeld();
    }
  }

  /** Hands on what is held, in turn with other clients, or passes it over where there is no room to send it to. */
  drainHeld(): void {
    if (this.#peer) this.#held.drain();
    else this.#passOverHeld();
  }

  #passOverHeld(): void {
    for (const { message, atMs } of this.#held.takeAll()) {
      counts.dropped.not_in_room += 1;
      this.#input.skip(message, atMs);
    }
  }

  get #maxHeldBytes(): number {
    return Math.max(MAX_HELD_SECONDS * this.bytesPerSecond, MIN_MAX_HELD_BYTES);
  }

  /**
   * Changes what the client asks to change.
   * @throws {PartylineError} `bad_message`, `unsupported_audio`; nothing is changed then
   */
  configure(changes: ClientMessages['configure']): ServerMessage {
    const { audio, audio_out: audioOut, delivery, volume, mute } = changes;
    const isNamed = [audio, audioOut, delivery, mute].some((each) => each !== undefined);
    const isQuestion = !isNamed && Object.keys(volume ?? {}).length === 0;
    // Clients ask so whether the connection still carries anything: it costs nothing but the answer.
    if (isQuestion && !this.#isVolumeLimited) return this.#configured();
    const wanted: AudioPreferences = { ...this.#preferences };
    if (audio !== undefined) wanted.in = parseDeclaredFormat(audio);
    if (audioOut !== undefined) wanted.out = parseAudioOut(audioOut);
    if (delivery !== undefined) wanted.delivery = delivery;
    const volumes = { ...this.#volume, ...volume };
    if (Object.keys(volumes).length > MAX_VOLUMES) {
      throw new PartylineError('bad_message', `volume: at most ${MAX_VOLUMES} peers.`);
    }
    // Messages that were sent before are read as they were declared then.
    if (this.#peer) this.#held.flush();
    this.#preferences = wanted;
    this.#volume = volumes;
    this.#gains = quantized(volumes);
    if (audio !== undefined || audioOut !== undefined || delivery !== undefined) {
      this.#intake.reset();
    }
    if (audio !== undefined) {
      this.#input.close();
      this.#detectedBefore = undefined;
      this.#input = this.#openInput(this.#peer?.lastPackets);
    }
    if (mute !== undefined) this.#isMuted = mute;
    this.#isVolumeLimited = false;
    this.#isConfiguring = true;
    this.#peer?.subscribe(this.subscription);
    this.#isConfiguring = false;
    this.#peer?.setMuted(this.#isMuted);
    this.#saved = this.#client.settingsChanged();
    return this.#configured();
  }

  #configured(): ServerMessage {
    return { type: 'configured', ...this.describeSettings() };
  }

  close(): void {
    this.#held.takeAll();
    this.#intake.reset();
    this.#peer = undefined;
    this.#outlet.sink = toNobody;
    this.#input.close();
  }

  /**
   * @param before what it is to go on from
   * @param assumed what an undeclared client is taken to send until it is found to send something else
   */
  #openInput(before?: LastPackets, assumed?: InputFormat): AudioInput {
    const declared = this.#preferences.in;
    return new AudioInput(
      declared,
      this.#codecs,
      this.#outlet,
      {
        onDetected: (format) => this.#formatDetected(format),
        onOpaque: (message, atMs) => this.#relay(message, atMs),
        onMismatch: (observed) =>
          this.#client.notify({
            type: 'format_mismatch',
            declared: formatAudioFormat(declared),
            observed: formatAudioFormat(observed.format),
            confidence: Math.round(observed.confidence * 1000) / 1000,
          }),
        onFault: (fault) => this.#client.fail(fault),
      },
      before,
      assumed && canBeginAnywhere(assumed) ? assumed : undefined,
    );
  }

  /** Relays a message to the room in which it was sent: it may have been held since, while nobody knew its format. */
  #relay(message: Buffer, atMs: number): void {
    if (!this.#peer || atMs < this.#inRoomSinceMs) counts.dropped.not_in_room += 1;
    else if (!this.#isMuted) this.#peer.relay(message);
  }

  /** Volumes that do not apply: where packets or messages go out as they came, all but 0 and 1. */
  #notApplied(): Record<string, number> {
    const { delivery, isRelayed } = this.subscription;
    const isAsSent = delivery === 'forward' || isRelayed;
    const isApplied = (gain: number) =>
      gain === 1 || (isAsSent ? gain === 0 : !this.#isVolumeLimited);
    return Object.fromEntries(Object.entries(this.#volume).filter(([, gain]) => !isApplied(gain)));
  }

  #audioStats(): { droppedMs: number; concealedMs: number } {
    const { droppedMs, concealedMs } = this.#before;
    return {
      droppedMs: droppedMs + (this.#peer?.audioStats.droppedMs ?? 0),
      concealedMs: concealedMs + (this.#peer?.audioStats.concealedMs ?? 0),
    };
  }

  #formatDetected(format: InputFormat): void {
    if (format.codec === 'opaque') {
      if (!this.#isToldUnknown) this.#client.notify({ type: 'audio_unknown', relayed: true });
      this.#isToldUnknown = true;
    } else {
      const { out } = this.describe();
      this.#client.notify({ type: 'audio_detected', in: formatAudioFormat(format), out });
    }
    this.#peer?.subscribe(this.subscription);
    this.settleRelayed();
    this.#saved = this.#client.settingsChanged();
  }
}

const toNobody: OpusSink = () => {};

const quantized = (volume: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(volume).map(([peer, gain]) => [peer, quantizeGain(gain)]));

/**
 * Reads `audio_out`; `auto` is as the client speaks.
 * @throws {PartylineError} `unsupported_audio`
 */
export function parseAudioOut(value: string): OutputFormat | undefined {
  return value === 'auto' ? undefined : parseOutputFormat(value);
}
