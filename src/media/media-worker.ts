import { readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type {
  Router,
  RouterRtpCodecCapability,
  TransportListenInfo,
  WebRtcServer,
  WebRtcTransport,
  Worker,
} from 'mediasoup/types';
import type { RtcAddress } from '../../config/listen-addresses.ts';
import type { Timings } from '../../config/timings.ts';
import { isBindable } from './bindable.ts';
import { ListeningRouters } from './listening-router.ts';
import type { MediaWorkerLoad } from './load.ts';
import type { MediaSettings } from './media-settings.ts';
import { TransportGuard } from './transport-guard.ts';
import { residentBytesOf, WorkerMemory } from './worker-memory.ts';
import { startWorkerProcess } from './worker-process.ts';

const OPUS: RouterRtpCodecCapability = {
  kind: 'audio',
  mimeType: 'audio/opus',
  clockRate: 48000,
  channels: 2,
  parameters: { useinbandfec: 1 },
};

/**
 * Number of unanswered probes (one every 0.5 s) after which a media worker counts as hung; it normally answers within a
 * millisecond. More than one, because after a stall of this process a probe may be due before the answer to the previous one
 * has been read.
 */
const HUNG_AFTER_PROBES = 3;
/** Number of unanswered probes after which a media worker that uses CPU all the time counts as hung: it may only be overloaded, so it gets 10 s. */
const BUSY_PROBES = 20;

/** One mediasoup child process: its port for all its browsers, its load, and a watchdog for its answers. */
export class MediaWorker {
  readonly index: number;
  readonly rtcPort: number;
  /** Resolves when the media worker accepts no more requests: it died, hung and was killed, or was closed. */
  readonly lost: Promise<void>;
  /** Resolves when its process has ended, and its port is free. */
  readonly gone: Promise<void>;
  readonly #worker: Worker;
  readonly #log: FastifyBaseLogger;
  readonly #timings: Timings['mediaWorkers'];
  readonly #guard: TransportGuard;
  readonly #memory: WorkerMemory;
  #webRtcServer: WebRtcServer | undefined;
  #cpuMs = 0;
  #measuredAtMs = performance.now();
  #cpuShare = 0;
  #unansweredProbes = 0;
  /** CPU time that the kernel has counted, when a probe was last found unanswered. */
  #kernelCpuMs = 0;
  #routers = 0;
  #consumers = 0;
  #isExitExpected = false;

  private constructor(
    worker: Worker,
    index: number,
    { rtcPort, timings, memory }: MediaSettings,
    log: FastifyBaseLogger,
  ) {
    this.index = index;
    this.rtcPort = rtcPort + index;
    this.#worker = worker;
    this.#timings = timings;
    this.#log = log.child({ mediaWorker: index, mediaWorkerPid: worker.pid });
    this.#guard = new TransportGuard(this.rtcPort, timings, this.#log);
    this.#memory = new WorkerMemory(timings.growthWatchedMs, memory);
    this.lost = new Promise((resolve) => worker.observer.once('close', resolve));
    this.gone = new Promise((resolve) => worker.once('subprocessclose', resolve));
    const probe = setInterval(() => this.#probe(), timings.probeEveryMs);
    const memoryProbe = setInterval(() => this.#checkMemory(), timings.memoryEveryMs);
    worker.observer.once('close', () => {
      clearInterval(probe);
      clearInterval(memoryProbe);
    });
    worker.once('died', (fault) => {
      // A signal may reach all processes at once: this process may see the end of the media worker
      // before its own signal.
      setImmediate(() => {
        if (!this.#isExitExpected) this.#log.error({ err: fault }, 'media worker died');
      });
    });
  }

  /**
   * Starts the `index`-th media worker.
   * @param signal aborted when it is not needed any more
   * @throws {Error} if its program does not run or hangs, its port is taken, or `signal` is aborted before its process has started
   */
  static async start(
    index: number,
    settings: MediaSettings,
    log: FastifyBaseLogger,
    signal?: AbortSignal,
  ): Promise<MediaWorker> {
    const { workerBin, timings } = settings;
    const port = settings.rtcPort + index;
    const addresses = await usableOf(settings.rtcAddresses(), log);
    const ips = addresses.map(({ ip }) => ip);
    const worker = await startWorkerProcess({
      workerBin,
      withinMs: timings.startWithinMs,
      signal,
    });
    const started = new MediaWorker(worker, index, settings, log);
    try {
      started.#webRtcServer = await worker.createWebRtcServer({
        // UDP before TCP, so that browsers prefer it.
        listenInfos: [
          ...addresses.map((address) => listenInfoOf('udp', address, port)),
          ...addresses
            .filter(({ takesTcp }) => takesTcp)
            .map((address) => listenInfoOf('tcp', address, port)),
        ],
      });
    } catch (cause) {
      await started.close();
      const what = `WebRTC port ${port} on ${ips.join(', ')} cannot be opened (RTC_LISTEN_IP, RTC_PORT)`;
      throw new Error(what, { cause });
    }
    started.#log.info({ rtcPort: port, rtcAddresses: ips }, 'media worker started');
    return started;
  }

  get pid(): number {
    return this.#worker.pid;
  }

  /** True once the media worker accepts no more requests. */
  get isLost(): boolean {
    return this.#worker.closed;
  }

  /** True if the media worker has answered recently. */
  get isResponsive(): boolean {
    return !this.isLost && this.#unansweredProbes < HUNG_AFTER_PROBES - 1;
  }

  get load(): MediaWorkerLoad {
    return { cpuShare: this.#cpuShare, routers: this.#routers, consumers: this.#consumers };
  }

  get webRtcServer(): WebRtcServer {
    if (this.#webRtcServer) return this.#webRtcServer;
    throw new Error('the media worker has not started yet');
  }

  /** The routers of clients that only listen, by payload type. */
  readonly listening = new ListeningRouters(this);

  /**
   * Opens a router, which counts as load from now on; the caller closes it.
   * @param preferredPayloadType RTP payload type of Opus; any, if it is left out
   */
  async openRouter(preferredPayloadType?: number): Promise<Router> {
    this.#routers += 1;
    try {
      const codec = preferredPayloadType === undefined ? OPUS : { ...OPUS, preferredPayloadType };
      const router = await this.#worker.createRouter({ mediaCodecs: [codec] });
      router.observer.once('close', () => (this.#routers -= 1));
      this.#watchTransports(router);
      return router;
    } catch (fault) {
      this.#routers -= 1;
      throw fault;
    }
  }

  /** Returns the number of routers that the media worker itself reports; 0 if it is lost. */
  async countRouters(): Promise<number> {
    try {
      return (await this.#worker.dump()).routerIds.length;
    } catch (fault) {
      if (this.isLost) return 0;
      throw fault;
    }
  }

  /** Announces that the media worker will be ended on purpose: its end is not reported as a fault. */
  expectExit(): void {
    this.#isExitExpected = true;
  }

  /** Ends the media worker; resolves when its process has ended. */
  async close(): Promise<void> {
    this.expectExit();
    this.#worker.close();
    const { endWithinMs, endSlowlyWithinMs } = this.#timings;
    const isGone = await this.#goesWithin(endWithinMs);
    // A machine may give the process too little CPU.
    const isSlow = !isGone && !isStopped(this.pid);
    if (!isGone && !(isSlow && (await this.#goesWithin(endSlowlyWithinMs)))) this.#kill();
    await this.gone;
  }

  async #goesWithin(ms: number): Promise<boolean> {
    const waiting = new AbortController();
    const deadline = delay(ms, false, { signal: waiting.signal }).catch(() => true);
    const isGone = await Promise.race([this.gone.then(() => true), deadline]);
    waiting.abort();
    return isGone;
  }

  #probe(): void {
    if (this.#unansweredProbes > 0) {
      const before = this.#kernelCpuMs;
      this.#kernelCpuMs = cpuMsOf(this.pid);
      if (isHung(this.#unansweredProbes, this.#kernelCpuMs > before)) {
        this.#giveUp('media worker hangs; killed');
        return;
      }
    }
    this.#unansweredProbes += 1;
    this.#worker.getResourceUsage().then(
      ({ ru_utime: userMs, ru_stime: systemMs }) => this.#measured(userMs + systemMs),
      (fault: unknown) => {
        if (!this.isLost) this.#log.warn({ err: fault }, 'media worker load not read');
      },
    );
  }

  /** Closes transports that may be why the memory grows, or gives the media worker up if it takes far too much. */
  #checkMemory(): void {
    const bytes = residentBytesOf(this.pid);
    if (bytes === undefined) return;
    const parts = {
      routers: this.#routers,
      transports: this.#guard.size,
      consumers: this.#consumers,
    };
    const nowMs = performance.now();
    const verdict = this.#memory.judge(bytes, parts, nowMs);
    if (verdict === 'exceeded') {
      this.#giveUp('media worker takes too much memory; killed', { ...parts, memoryBytes: bytes });
    }
    if (verdict === 'grows') {
      this.#guard.look(nowMs).catch((fault: unknown) => {
        if (!this.isLost) this.#log.warn({ err: fault }, 'transports not looked at');
      });
    }
  }

  /** Gives the media worker up at once: rooms and callers do not wait for the end of the process, which may take long. */
  #giveUp(why: string, fields: object = {}): void {
    this.#log.error(fields, why);
    this.#kill();
    this.#worker.close();
  }

  #measured(cpuMs: number): void {
    const nowMs = performance.now();
    this.#cpuShare = (cpuMs - this.#cpuMs) / (nowMs - this.#measuredAtMs);
    this.#cpuMs = cpuMs;
    this.#measuredAtMs = nowMs;
    this.#unansweredProbes = 0;
  }

  /**
   * Kills the process with SIGKILL, the only signal that a stopped process acts on. Its id is not reused
   * before its exit has been reported here.
   */
  #kill(): void {
    if (!this.#worker.subprocessClosed) process.kill(this.pid, 'SIGKILL');
  }

  #watchTransports(router: Router): void {
    router.observer.on('newtransport', (transport) => {
      if (transport.type === 'webrtc') this.#guard.add(transport as WebRtcTransport);
      transport.observer.on('newconsumer', (consumer) => {
        this.#consumers += 1;
        consumer.observer.once('close', () => (this.#consumers -= 1));
      });
    });
  }
}

/**
 * Returns true if a media worker hangs.
 * @param hasWorked true if it has used CPU since the last probe
 */
export const isHung = (unansweredProbes: number, hasWorked: boolean): boolean =>
  unansweredProbes >= (hasWorked ? BUSY_PROBES : HUNG_AFTER_PROBES);

/** Returns true if a media worker was not started because its port is in use, according to the fault of {@link MediaWorker.start}. */
export const isPortTaken = (fault: unknown): boolean =>
  fault instanceof Error &&
  fault.cause instanceof Error &&
  fault.cause.message.endsWith(': address already in use');

/** The kernel counts in hundredths of a second (proc(5), "USER_HZ"). */
const TICK_MS = 10;

/** Returns the CPU time of a process as the kernel counts it, ms; 0 if the process has ended. */
function cpuMsOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const [user, system] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11);
    return (Number(user) + Number(system)) * TICK_MS;
  } catch {
    // Its exit event follows.
    return 0;
  }
}

/** Returns true if a process is stopped by a signal or a debugger; false if it has ended. */
function isStopped(pid: number): boolean {
  try {
    const [, state] = /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? [];
    return state === 'T' || state === 't';
  } catch {
    // Its exit event follows.
    return false;
  }
}

/**
 * Leaves out addresses that were found on this machine but cannot be used. Addresses from the settings are kept: opening their port
 * reports the fault.
 */
async function usableOf(
  addresses: readonly RtcAddress[],
  log: FastifyBaseLogger,
): Promise<RtcAddress[]> {
  const usable: RtcAddress[] = [];
  for (const address of addresses) {
    if (address.isSet || (await isBindable(address.ip))) usable.push(address);
    else log.warn({ ip: address.ip }, 'address cannot be used for WebRTC');
  }
  return usable;
}

const listenInfoOf = (
  protocol: 'udp' | 'tcp',
  { ip, announced }: RtcAddress,
  port: number,
): TransportListenInfo => ({
  protocol,
  ip,
  port,
  // Without it, the IPv6 wildcard address would take the port on IPv4, too.
  ...(isIPv6(ip) && { flags: { ipv6Only: true } }),
  ...(announced !== undefined && { announcedAddress: announced }),
});
