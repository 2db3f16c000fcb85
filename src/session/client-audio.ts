import type { Codecs } from '../audio/codecs.ts';
import {
  answerTo,
  type DeclaredFormat,
  type Delivery,
  formatAudioFormat,
  type InputFormat,
  type OutputFormat,
  parseDeclaredFormat,
  parseOutputFormat,
} from '../audio/format.ts';
import { quantizeGain } from '../audio/gain.ts';
import type { Turn } from '../audio/ingest/held-audio.ts';
import type { StreamOverdraft } from '../audio/ingest/stream-budget.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { ClientMessages } from '../protocol/client-messages.ts';
import type {
  AudioDescription,
  ServerMessage,
  SettingsDescription,
  Stats,
} from '../protocol/messages.ts';
import type { PeerSubscription, WebSocketPeer } from '../rooms/websocket-peer.ts';
import type { AudioSettings } from './audio-settings.ts';
import { ClientInput } from './client-input.ts';
import type { ClientNotifier } from './client-notifier.ts';
import { RelayIntake } from './relay-intake.ts';

/** Maximum number of peers whose volume a client can set, over all its messages. */
const MAX_VOLUMES = 1000;
/**
 * Maximum length of the names of all volumes, UTF-16 code units: 1000 names of peers. Each `configure` copies, stores and answers
 * all volumes: with these, at most 3 ms.
 */
const MAX_VOLUME_NAMES_LENGTH = 128_000;

/** Preferences of a client for its audio, before it has sent anything else. */
export type AudioPreferences = {
  in: DeclaredFormat;
  /** Format in which the clients of the account send when they say `auto`; undefined if the operator has pinned none. */
  pinned: DeclaredFormat | undefined;
  /** Format that the client hears; undefined: the same as it sends. */
  out: OutputFormat | undefined;
  delivery: Delivery;
  /**
   * Format that it hears while that of its own audio is unknown; undefined if neither the client nor its
   * account has set one: Opus, or relayed messages.
   */
  unknownOut: OutputFormat | undefined;
};

type AudioClient = ClientNotifier & {
  /** True if the client may be in a room in a moment. */
  readonly isJoining: boolean;
  /** Sends a message of an unknown format, unchanged. */
  sendRelayed(message: Buffer): void;
  /** Called when recordings begin, or formats change, more often than the budget allows. */
  streamOver(overdraft: StreamOverdraft): void;
  /** Called when {@link ClientAudio.settings} have changed. Resolves when they are stored for a resume. */
  settingsChanged(): Promise<void>;
};

/** The audio of one client over the life of its connection, in all rooms: the formats in which it sends and hears. */
export class ClientAudio {
  /** Messages that the client sends. */
  readonly input: ClientInput;
  readonly #turn: Turn;
  readonly #client: AudioClient;
  #preferences: AudioPreferences;
  /** Format that was detected before the client resumed its session. */
  #detectedBefore: InputFormat | undefined;
  readonly #intake: RelayIntake;
  #volume: Record<string, number> = {};
  /** {@link ClientAudio.#volume} as applied, in steps of 1 dB. */
  #gains: Record<string, number> = {};
  #isVolumeLimited = false;
  #isConfiguring = false;
  #isMuted = false;
  /** True if the last thing that the client was told about its format is that it is unknown. */
  #isToldUnknown = false;
  #peer: WebSocketPeer | undefined;
  #saved: Promise<void> = Promise.resolve();
  /** True if the kind of audio that came first is stored, or about to be, because it decides what the client is sent. */
  #isChoiceStored: boolean;
  /** Dropped and concealed audio in earlier rooms, ms. */
  #before = { droppedMs: 0, concealedMs: 0 };

  /**
   * @param settings settings of the session that the client resumes; they win over its preferences
   * @param turn scheduler of this account's work among that of other accounts
   */
  constructor(
    preferences: AudioPreferences,
    settings: AudioSettings | undefined,
    codecs: Codecs,
    turn: Turn,
    client: AudioClient,
  ) {
    this.#turn = turn;
    this.#preferences = preferences;
    this.#client = client;
    if (settings) {
      const { in: declared, out, delivery } = settings;
      const answer = settings.detected && answerTo(settings.detected);
      const unknownOut = answer ?? preferences.unknownOut;
      this.#preferences = { ...preferences, in: declared, out, delivery, unknownOut };
      this.#volume = settings.volume;
      this.#gains = quantized(settings.volume);
      this.#isMuted = settings.isMuted;
      this.#detectedBefore = settings.detected;
    }
    this.#intake = new RelayIntake(() => this.#intakeState, settings?.firstHeard);
    this.#isChoiceStored = settings?.firstHeard !== undefined;
    const sent = { declared: this.#preferences.in, assumed: settings?.detected };
    this.input = new ClientInput(sent, codecs, turn, {
      isJoining: () => client.isJoining,
      onDetected: (format) => this.#formatDetected(format),
      onOpaque: (message, atMs) => this.#peer?.relay(message, atMs),
      isMuted: () => this.#isMuted,
      onMismatch: ({ format, confidence }) =>
        client.notify({
          type: 'format_mismatch',
          declared: formatAudioFormat(this.#preferences.in),
          observed: formatAudioFormat(format),
          confidence: Math.round(confidence * 1000) / 1000,
        }),
      onUncovered: (seconds) => this.#peer?.noteDropped(seconds * 1000),
      onOver: (overdraft) => client.streamOver(overdraft),
      onFault: (fault) => client.fail(fault),
    });
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
    const { format } = this.input;
    const isTelling = format && (format.codec !== 'wav' || format.inside);
    const detected = isTelling ? format : (this.#detectedBefore ?? format);
    return this.#preferences.in === 'auto' || detected?.codec === 'wav' ? detected : undefined;
  }

  /**
   * Notes that a frame of audio is ready for the client. The hot path: runs for every frame.
   * @returns false while the format that the client understands is unknown: the frame might be noise to it
   */
  admitSound(): boolean {
    const isFormatUnknown =
      this.#preferences.out === undefined && this.input.isFormatUnknown(clock);
    if (isFormatUnknown) return false;
    if (this.#intake.soundSent()) {
      this.#isChoiceStored = true;
      this.#storeChoice();
    }
    return true;
  }

  /** Stores that sound came first, in the client's turn: a frame may be the first for hundreds of listeners. */
  #storeChoice(): void {
    this.#turn.take(() => {
      // The client may have left, or closed, in the meantime.
      if (this.#intake.firstHeard === undefined) return;
      this.#saved = this.#client.settingsChanged();
    });
  }

  /** Begins anew for another room, in which what came first in this one is not to hold, also after a resume. */
  #forgetChoice(): void {
    this.#intake.reset();
    if (!this.#isChoiceStored) return;
    this.#isChoiceStored = false;
    this.#saved = this.#client.settingsChanged();
  }

  /** False while the client is sent audio of known formats. */
  get takesRelayed(): boolean {
    return this.#intake.intake !== 'sound';
  }

  /** Takes a message of an unknown format that another client has sent. */
  takeRelayed(message: Buffer): void {
    this.#sendRelayed(() => this.#intake.take(message, performance.now()));
  }

  /** Sends messages that were held for the client, in its turn, once they may be sent. To be called at intervals. */
  settleRelayed(): void {
    if (!this.#intake.holds) return;
    this.#turn.take(() => this.#sendRelayed(() => this.#intake.settle(performance.now())));
  }

  #sendRelayed(takeDue: () => Buffer[]): void {
    const heardBefore = this.#intake.firstHeard;
    const due = takeDue();
    const { firstHeard } = this.#intake;
    if (firstHeard !== heardBefore) {
      // It is sent no sound from now on.
      this.#peer?.subscribe(this.subscription);
      this.#isChoiceStored = true;
      this.#saved = this.#client.settingsChanged();
    }
    for (const each of due) this.#client.sendRelayed(each);
  }

  /** True while the client is muted. */
  get isMuted(): boolean {
    return this.#isMuted;
  }

  get subscription(): PeerSubscription {
    const { out, delivery, unknownOut } = this.#preferences;
    const { format } = this.input;
    const output = out ?? (format && answerTo(format)) ?? unknownOut;
    // Forwarded frames are the speakers' own Opus packets.
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
      outputFormat: out,
      inputFormat: this.input.format,
      isFormatUnknown: this.input.isFormatUnknown(clock),
      hasSaidNothing: declared === 'auto' && delivery === 'mix' && unknownOut === undefined,
    };
  }

  describe(): AudioDescription {
    const { isRelayed, format, delivery } = this.subscription;
    const { in: declared } = this.#preferences;
    return {
      in: formatAudioFormat(this.input.format ?? declared),
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

  /**
   * Notes that the room makes no individual mix for this client until it sends `configure` or joins another
   * room. The client is told once.
   */
  volumeLimited(): void {
    if (this.#isVolumeLimited) return;
    this.#isVolumeLimited = true;
    // The answer to `configure` reports this itself.
    if (!this.#isConfiguring)
      this.#client.notify({ type: 'configured', ...this.describeSettings() });
  }

  /** Directs held and later audio to the room of `peer`, or to no room. */
  attach(peer: WebSocketPeer | undefined): void {
    // Messages that still wait for their turn were sent to the room that the client is about to
    // leave.
    this.input.flush();
    const { droppedMs, concealedMs } = this.#audioStats();
    this.#before = { droppedMs, concealedMs };
    this.#peer = peer;
    if (!peer) this.#isVolumeLimited = false;
    if (!peer) this.#forgetChoice();
    this.input.attach(peer?.sink);
  }

  /** Returns statistics of the client's audio since it connected. */
  describeStats(): Pick<Stats, 'ingest_ms' | 'drift_ppm' | 'dropped_ms' | 'concealed_ms'> {
    const { droppedMs, concealedMs } = this.#audioStats();
    return {
      ingest_ms: Math.round(this.#peer?.audioStats.bufferedMs ?? 0),
      drift_ppm: Math.round(this.#peer?.audioStats.driftPpm ?? 0),
      dropped_ms: Math.round(droppedMs),
      concealed_ms: Math.round(concealedMs),
    };
  }

  /** Hands on the held messages of the client, or drops them if there is no room. */
  drainHeld(): void {
    this.input.drain();
  }

  /**
   * Applies a `configure` message.
   * @throws {PartylineError} `bad_message`, `unsupported_audio`, without changing anything
   */
  configure(changes: ClientMessages['configure']): ServerMessage {
    const { audio, audio_out: audioOut, delivery, volume, mute } = changes;
    const isNamed = [audio, audioOut, delivery, mute].some((each) => each !== undefined);
    const isQuestion = !isNamed && Object.keys(volume ?? {}).length === 0;
    // Clients use this to test the connection: it costs only the answer.
    if (isQuestion && !this.#isVolumeLimited) return this.#configured();
    const wanted: AudioPreferences = { ...this.#preferences };
    if (audio !== undefined) wanted.in = withPin(parseDeclaredFormat(audio), wanted.pinned);
    if (audioOut !== undefined) wanted.out = parseAudioOut(audioOut);
    if (delivery !== undefined) wanted.delivery = delivery;
    const volumes = withoutOnes({ ...this.#volume, ...volume });
    checkVolumes(volumes);
    const before = this.#preferences;
    // A client may name all its settings to change one: a new input would begin in the middle of
    // its stream.
    const isNewIn = formatAudioFormat(wanted.in) !== formatAudioFormat(before.in);
    const isNewOut =
      nameOf(wanted.out) !== nameOf(before.out) || wanted.delivery !== before.delivery;
    const isNewMute = mute !== undefined && mute !== this.#isMuted;
    // Earlier messages are read in the format, and with the mute, of their time. For a volume they
    // may wait.
    if (isNewIn || isNewOut || isNewMute) this.input.flush();
    this.#preferences = wanted;
    this.#volume = volumes;
    this.#gains = quantized(volumes);
    if (isNewIn || isNewOut) this.#intake.reset();
    if (isNewMute) this.#isMuted = mute;
    if (isNewIn) {
      this.#detectedBefore = undefined;
      this.input.reopen({ declared: wanted.in, before: this.#peer?.lastPackets });
    }
    if (isNewMute) this.input.cut();
    this.#isVolumeLimited = false;
    this.#isConfiguring = true;
    this.#peer?.subscribe(this.subscription);
    this.#isConfiguring = false;
    // Sound that was sent before may still be held: it is heard later if the client was not muted
    // when it sent it.
    this.#peer?.setMuted(this.#isMuted, this.input.nextAtMs);
    this.#saved = this.#client.settingsChanged();
    // Volumes of 1 are not kept, but confirmed.
    return { type: 'configured', ...this.describeSettings(), volume: { ...volumes, ...volume } };
  }

  #configured(): ServerMessage {
    return { type: 'configured', ...this.describeSettings() };
  }

  close(): void {
    this.#intake.reset();
    this.#peer = undefined;
    this.input.close();
  }

  /** Returns the volumes that do not apply: for packets or messages that are sent unchanged, all but 0 and 1. */
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
      this.#isToldUnknown = false;
      const { out } = this.describe();
      this.#client.notify({ type: 'audio_detected', in: formatAudioFormat(format), out });
    }
    this.#peer?.subscribe(this.subscription);
    this.settleRelayed();
    this.#saved = this.#client.settingsChanged();
  }
}

const clock = () => performance.now();

/** Returns the format that a client sends: in place of `auto`, the one that is pinned for its account. */
export const withPin = (declared: DeclaredFormat, pinned: DeclaredFormat | undefined) =>
  declared === 'auto' ? (pinned ?? declared) : declared;

const nameOf = (out: OutputFormat | undefined) => (out ? formatAudioFormat(out) : 'auto');

/** Removes the gains of peers that are heard as they were sent. */
const withoutOnes = (volume: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(volume).filter(([, gain]) => gain !== 1));

const quantized = (volume: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(volume).map(([peer, gain]) => [peer, quantizeGain(gain)]));

/** @throws {PartylineError} `bad_message` if there are too many volumes to keep */
function checkVolumes(volumes: Record<string, number>): void {
  const names = Object.keys(volumes);
  if (names.length > MAX_VOLUMES) {
    throw new PartylineError('bad_message', `volume: at most ${MAX_VOLUMES} peers.`);
  }
  const length = names.reduce((sum, name) => sum + name.length, 0);
  if (length > MAX_VOLUME_NAMES_LENGTH) {
    const fault = `volume: the names have at most ${MAX_VOLUME_NAMES_LENGTH} UTF-16 code units in all.`;
    throw new PartylineError('bad_message', fault);
  }
}

/**
 * Reads `audio_out`; `auto` is the format in which the client sends.
 * @throws {PartylineError} `unsupported_audio`
 */
export function parseAudioOut(value: string): OutputFormat | undefined {
  return value === 'auto' ? undefined : parseOutputFormat(value);
}
