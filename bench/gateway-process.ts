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

/**
 * First of the WebRTC ports of gateways: above the kernel's ephemeral range (net.ipv4.ip_local_port_range),
 * whose ports may be in use.
 */
const FIRST_RTC_PORT = 61_000;
const LAST_RTC_PORT = 65_000;
/** Number of WebRTC ports of a gateway: one for each media worker of all its processes. */
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

type GatewayOptions = {
  /** True to load the probe, which measures inside the gateway and costs CPU. */
  probe?: boolean;
  /** Folder for a CPU profile, which is written when the gateway ends. */
  profileDir?: string | undefined;
  /** Settings of the gateway in place of the bench's own. */
  environment?: Record<string, string>;
  /** Root of the checkout whose gateway is started, as a file URL; by default this checkout. */
  project?: URL;
  /** Cores of the gateway; by default the measured core. */
  cores?: string;
};

/** A gateway as its users run it, with one media worker, and with a data folder of its own. */
export class GatewayProcess implements AsyncDisposable {
  readonly #child: Child;
  readonly #scenario: Scenario;
  readonly dataDir: string;
  readonly url: string;
  readonly apiKey: string;
  readonly #mediaWorkers: number[];
  /** Process ids of the started process and of all its descendants except media workers and redis-server. */
  readonly #pids: number[];

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
    this.#pids = [child.pid, ...pidsOf(below).filter((pid) => !others.includes(pid))];
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
      // A usage worker would start up during the measurement.
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

  /** Returns the WebSocket URL at which a peer connects and joins its room. */
  address(room: number, peer: number): URL {
    const { delivery, hear } = this.#scenario;
    const address = new URL('/ws', this.url.replace('http', 'ws'));
    const query = { room: `room-${room}`, peer: `peer-${room}-${peer}`, api_key: this.apiKey };
    const audio = { audio: 'opus', audio_out: HEARD_FORMATS[hear], delivery };
    address.search = new URLSearchParams({ ...query, ...audio }).toString();
    return address;
  }

  cpuMs(): { main: number; mediaWorkers: number } {
    return { main: sum(this.#pids.map(cpuMs)), mediaWorkers: sum(this.#mediaWorkers.map(cpuMs)) };
  }

  /** Returns the resident memory of the Node processes and the media workers together. */
  residentKb(): number {
    return sum(this.#pids.map(residentKb)) + sum(this.#mediaWorkers.map(residentKb));
  }

  /** Kills the last gateway process, which closes all its connections. */
  killProcess(): void {
    process.kill(this.#pids.at(-1)!, 'SIGKILL');
  }

  /** Resets the figures of the probe. */
  resetProbe(): void {
    this.#child.process.send('reset');
  }

  async askProbe(): Promise<ProbeReport> {
    const answer = this.#child.nextMessage<ProbeReport>(PROBE_TIMEOUT_MS);
    this.#child.process.send('report');
    return answer;
  }

  /** Returns the heap and external memory of the gateway after a garbage collection. */
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
