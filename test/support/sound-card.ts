import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { eventually } from './gateway.ts';

const RATE_HZ = 48_000;
/** Length of the blocks in which the card takes and gives sound, ms; sound cards have such. */
const BLOCK_MS = 5;
const START_TIMEOUT_MS = 30_000;
const FORMAT = ['--raw', '--format=float32le', `--rate=${RATE_HZ}`, '--channels=1'];
const run = promisify(execFile);

/** A recording in progress. */
type Recording = {
  /**
   * Ends the recording.
   * @returns mono at 48 kHz, and when its first sample was heard, ms of `performance.now()`
   */
  stop(): Promise<{ samples: Float32Array; startMs: number }>;
};

/**
 * A sound card in user space: a PulseAudio of the test's own. Browsers play on `speakers`, and their microphone hears what is played on
 * `mouth`. Devices can be plugged in and unplugged as those of a machine.
 */
export class SoundCard {
  readonly #folder: string;
  readonly #server: ChildProcess;
  /** Programs that play and record. */
  readonly #programs = new Set<ChildProcess>();

  private constructor(folder: string) {
    this.#folder = folder;
    const modules = [
      `module-native-protocol-unix socket=${join(folder, 'socket')} auth-anonymous=1`,
      // Streams whose device is unplugged go over to another, as on a desktop.
      'module-rescue-streams',
      'module-always-sink',
    ];
    const words = '-n --daemonize=no --use-pid-file=no --exit-idle-time=-1 --disable-shm=yes';
    this.#server = spawn(
      'setpriv',
      [
        '--pdeathsig',
        'KILL',
        '--',
        'pulseaudio',
        ...`${words} --realtime=no --high-priority=no --log-level=error`.split(' '),
        ...modules.flatMap((module) => ['-L', module]),
      ],
      { env: { ...process.env, HOME: folder, XDG_RUNTIME_DIR: folder }, stdio: 'ignore' },
    );
  }

  static async open(): Promise<SoundCard> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-sound-'));
    const configuration = join(folder, '.config', 'pulse');
    await mkdir(configuration, { recursive: true });
    await writeFile(join(configuration, 'daemon.conf'), `default-sample-rate = ${RATE_HZ}\n`);
    const card = new SoundCard(folder);
    try {
      const answers = () => card.#control('info').then(Boolean, () => false);
      await eventually('PulseAudio answers', answers, START_TIMEOUT_MS);
      await card.plugIn('speakers');
      await card.plugIn('mouth');
      await card.#control('set-default-sink', 'speakers');
      await card.#control(
        'load-module',
        'module-remap-source',
        'source_name=microphone',
        'master=mouth.monitor',
        'source_properties=device.description=Microphone',
      );
      await card.#control('set-default-source', 'microphone');
      return card;
    } catch (fault) {
      await card.close();
      throw fault;
    }
  }

  /** Environment of the programs that are to play and record with this card. */
  get environment(): Record<string, string> {
    return { PULSE_SERVER: `unix:${join(this.#folder, 'socket')}` };
  }

  /** Adds speakers. @returns what unplugs them */
  async plugIn(name: string): Promise<() => Promise<void>> {
    const module = await this.#control(
      'load-module',
      'module-null-sink',
      `sink_name=${name}`,
      `rate=${RATE_HZ}`,
      `sink_properties=device.description=${name}`,
    );
    return async () => void (await this.#control('unload-module', module));
  }

  /** Makes speakers the default ones, as a user does in the settings of a desktop. */
  async setDefaultSpeakers(name: string): Promise<void> {
    await this.#control('set-default-sink', name);
  }

  /** Mutes the microphone, as a user does in the settings of a desktop. */
  async muteMicrophone(isMuted: boolean): Promise<void> {
    await this.#control('set-source-mute', 'microphone', isMuted ? '1' : '0');
  }

  /** Plays sound into the microphone over and over, until it is closed. */
  keepSpeaking(sound: Float32Array): { close(): void } {
    const player = this.#start('pacat', ['--playback', '--device=mouth']);
    const bytes = Buffer.from(sound.buffer, sound.byteOffset, sound.byteLength);
    const endless = Readable.from(
      (function* () {
        for (;;) yield bytes;
      })(),
    );
    // Sound that was not read before the player was closed is not waited for.
    player.stdin?.on('error', () => endless.destroy());
    if (player.stdin) endless.pipe(player.stdin);
    return { close: () => void player.kill('SIGKILL') };
  }

  /** Records what is played on speakers, or into the microphone (`mouth`). */
  record(name: string): Recording {
    const recorder = this.#start('parec', [`--device=${name}.monitor`]);
    // From the beginning: a recorder that has ended by itself does not close again.
    const ended = new Promise((resolve) => recorder.once('close', resolve));
    const blocks: Buffer[] = [];
    let bytes = 0;
    // Blocks come late, never early: the earliest one tells when the recording began.
    let startMs = Infinity;
    recorder.stdout?.on('data', (block: Buffer) => {
      blocks.push(block);
      bytes += block.length;
      startMs = Math.min(startMs, performance.now() - (bytes / 4 / RATE_HZ) * 1000);
    });
    return {
      stop: async () => {
        recorder.kill();
        await ended;
        const whole = Uint8Array.from(Buffer.concat(blocks));
        return { samples: new Float32Array(whole.buffer, 0, whole.length >> 2), startMs };
      },
    };
  }

  /** Returns half a second of what speakers play. */
  async played(speakers = 'speakers'): Promise<Float32Array> {
    const recording = this.record(speakers);
    await sleep(700);
    const { samples } = await recording.stop();
    return samples.slice(-RATE_HZ / 2);
  }

  async close(): Promise<void> {
    for (const program of this.#programs) program.kill('SIGKILL');
    const { exitCode, signalCode, pid } = this.#server;
    if (exitCode === null && signalCode === null && pid !== undefined) {
      const exited = once(this.#server, 'exit');
      this.#server.kill();
      await exited;
    }
    await rm(this.#folder, { recursive: true, force: true });
  }

  #start(program: string, words: string[]): ChildProcess {
    const started = spawn(program, [...FORMAT, `--latency-msec=${BLOCK_MS}`, ...words], {
      env: { ...process.env, ...this.environment },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#programs.add(started);
    started.on('exit', () => this.#programs.delete(started));
    return started;
  }

  async #control(...words: string[]): Promise<string> {
    const env = { ...process.env, ...this.environment };
    const { stdout } = await run('pactl', words, { env });
    return stdout.trim();
  }
}
