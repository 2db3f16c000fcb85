import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startArguments } from '../test/support/start-arguments.ts';
import { Child } from './child.ts';
import type { ProbeReport } from './probe-report.ts';
import { cpuMs, descendants, isNamed, residentKb } from './process-stats.ts';
import type { Scenario } from './scenario.ts';

const PROBE_TIMEOUT_MS = 15_000;
const PROBE = new URL('./probe.ts', import.meta.url).href;

/** Above those that the kernel deals out (net.ipv4.ip_local_port_range): one of them may be taken by chance. */
const FIRST_RTC_PORT = 61_000;
const LAST_RTC_PORT = 65_000;
/** One for each media worker of all its processes. */
const RTC_PORTS_OF_GATEWAY = 32;
let rtcPort = FIRST_RTC_PORT;

function nextRtcPort(): number {
  rtcPort = rtcPort < LAST_RTC_PORT ? rtcPort + RTC_PORTS_OF_GATEWAY : FIRST_RTC_PORT;
  return rtcPort;
}

const HEARD_FORMATS: Record<Scenario['hear'], string> = {
  opus: 'opus',
  pcm: 'pcm_s16le;rate=16000;channels=1',
};

export type GatewayOptions = {
  /** Look inside, which costs CPU. */
  probe?: boolean;
  /** Folder for a CPU profile, written when it stops. */
  profileDir?: string | undefined;
  /** Settings other than the usual. */
  environment?: Record<string, string>;
  /** Root of the checkout that it is of, as a file URL; this one, if not given. */
  project?: URL;
  /** Where it runs, if not on the measured core. */
  cores?: string;
};

/** The gateway as its users run it, with one media worker, and with data of its own. */
export class GatewayProcess implements AsyncDisposable {
  readonly #child: Child;
  readonly #scenario: Scenario;
  readonly dataDir: string;
  readonly url: string;
  readonly apiKey: string;
  readonly #mediaWorkers: number[];
  /** The process, and with several the gateways that it has started; not its Redis. */
  readonly #nodes: number[];

  private constructor(
    scenario: Scenario,
    child: Child,
    dataDir: string,
    url: string,
    apiKey: string,
  ) {
    this.#child = child;
    this.#scenario = scenario;
    this.dataDir = dataDir;
    this.url = url;
    this.apiKey = apiKey;
    const below = descendants(child.pid);
    const named = (program: string) => below.filter(({ name }) => isNamed(name, program));
    const pidsOf = (processes: typeof below) => processes.map(({ pid }) => pid);
    this.#mediaWorkers = pidsOf(named('mediasoup-worker'));
    const others = [...this.#mediaWorkers, ...pidsOf(named('redis-server'))];
    this.#nodes = [child.pid, ...pidsOf(below).filter((pid) => !others.includes(pid))];
  }

  static async start(
    scenario: Scenario,
    { probe, profileDir, environment, project, cores }: GatewayOptions = {},
  ): Promise<GatewayProcess> {
    const dataDir = await mkdtemp(join(tmpdir(), 'partyline-bench-'));
    const preload = probe ? ['--import', PROBE] : [];
    const profile = profileDir ? ['--cpu-prof', `--cpu-prof-dir=${profileDir}`] : [];
    const command = [process.execPath, ...preload, ...profile, ...startArguments(project)];
    const settings = {
      PORT: '0',
      HOST: '127.0.0.1',
      REDIS_URL: '',
      DATA_DIR: dataDir,
      DEMO_ACCOUNT: 'true',
      MEDIA_WORKERS: '1',
      // It would start up in the middle of the measuring.
      USAGE_WORKERS: '0',
      RTC_LISTEN_IP: '127.0.0.1',
      RTC_PORT: String(nextRtcPort()),
      LOG_LEVEL: 'warn',
      ...environment,
    };
    const child = new Child('the gateway', command, settings, cores);
    try {
      const { url, api_key: apiKey } = await child.ready();
      return new GatewayProcess(scenario, child, dataDir, String(url), String(apiKey));
    } catch (fault) {
      await child.stop();
      await rm(dataDir, { recursive: true, force: true });
      throw fault;
    }
  }

  /** Where a peer connects to be in a room. */
  address(room: number, peer: number): URL {
    const { delivery, hear } = this.#scenario;
    const address = new URL('/ws', this.url.replace('http', 'ws'));
    const query = { room: `room-${room}`, peer: `peer-${room}-${peer}`, api_key: this.apiKey };
    const audio = { audio: 'opus', audio_out: HEARD_FORMATS[hear], delivery };
    address.search = new URLSearchParams({ ...query, ...audio }).toString();
    return address;
  }

  cpuMs(): { main: number; mediaWorkers: number } {
    return { main: sum(this.#nodes.map(cpuMs)), mediaWorkers: sum(this.#mediaWorkers.map(cpuMs)) };
  }

  /** Resident memory of Node and the media workers together. */
  residentKb(): number {
    return sum(this.#nodes.map(residentKb)) + sum(this.#mediaWorkers.map(residentKb));
  }

  /** Kills the last gateway process, with all its connections. */
  killProcess(): void {
    process.kill(this.#nodes.at(-1)!, 'SIGKILL');
  }

  /** The probe measures from here on. */
  resetProbe(): void {
    this.#child.process.send('reset');
  }

  async askProbe(): Promise<ProbeReport> {
    const answer = this.#child.nextMessage<ProbeReport>(PROBE_TIMEOUT_MS);
    this.#child.process.send('report');
    return answer;
  }

  /** Heap and external memory of the gateway, after a garbage collection. */
  async askHeapBytes(): Promise<number> {
    const answer = this.#child.nextMessage<number>(PROBE_TIMEOUT_MS);
    this.#child.process.send('heap');
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.stop();
    await rm(this.dataDir, { recursive: true, force: true });
  }
}

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
