import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { ALL_CORES } from './child.ts';
import { GatewayProcess } from './gateway-process.ts';
import { CROWD } from './scenario.ts';

const PEERS = CROWD.rooms * CROWD.peers;
const AGAIN_AFTER_MS = 200;
const LOOK_EVERY_MS = 5;
const SETTLE_MS = 3000;
const TIMEOUT_MS = 60_000;

/**
 * Measures the time until all clients are in their rooms when they come, or lose their connections, at the
 * same time.
 */
export async function reportRush(print: (text: string) => void, signal: AbortSignal) {
  print(`
| ${PEERS} clients into ${CROWD.rooms} rooms, all at once | processes | all are in after | refused at first |
| --- | --- | --- | --- |
`);
  for (const processes of [1, 2]) {
    await using gateway = await GatewayProcess.start(CROWD, {
      environment: { PROCESSES: String(processes) },
      cores: ALL_CORES,
    });
    using crowd = new Crowd(gateway);
    const rush = async (what: string, begin: () => void) => {
      const startMs = performance.now();
      const refusedBefore = crowd.refused;
      begin();
      while (!crowd.isInside) {
        if (performance.now() - startMs > TIMEOUT_MS) throw new Error(`${what}: not all got in`);
        await sleep(LOOK_EVERY_MS, undefined, { signal });
      }
      const ms = performance.now() - startMs;
      print(
        `| ${what} | ${processes} | ${ms.toFixed(0)} ms | ${crowd.refused - refusedBefore} |\n`,
      );
      await sleep(SETTLE_MS, undefined, { signal });
    };
    await rush('they come for the first time', () => crowd.come());
    await rush('all lose their connections', () => crowd.loseConnections());
    if (processes === 1) continue;
    await rush('one process is killed, and those of its clients come again', () => {
      gateway.killProcess();
      crowd.expectLoss();
    });
  }
}

/** Clients that reconnect when they are refused or lose their connections. */
class Crowd implements Disposable {
  readonly #gateway: GatewayProcess;
  readonly #sockets = new Map<number, WebSocket>();
  readonly #inside = new Set<number>();
  readonly #again = new Set<NodeJS.Timeout>();
  #isLossAwaited = false;
  refused = 0;

  constructor(gateway: GatewayProcess) {
    this.#gateway = gateway;
  }

  get isInside(): boolean {
    return !this.#isLossAwaited && this.#inside.size === PEERS;
  }

  come(): void {
    for (let index = 0; index < PEERS; index += 1) this.#connect(index);
  }

  loseConnections(): void {
    this.#inside.clear();
    for (const socket of this.#sockets.values()) socket.terminate();
  }

  /** Notes that a process was killed, and that no client has noticed it yet. */
  expectLoss(): void {
    this.#isLossAwaited = true;
  }

  #connect(index: number): void {
    const { rooms } = CROWD;
    const address = this.#gateway.address(index % rooms, Math.floor(index / rooms));
    const socket = new WebSocket(address, { perMessageDeflate: false });
    this.#sockets.set(index, socket);
    socket.on('message', (data: Buffer) => {
      if (data.includes('"type":"joined"')) this.#inside.add(index);
      else if (data.includes('"type":"error"')) this.refused += 1;
    });
    // The event 'close' follows every error.
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#inside.delete(index);
      this.#isLossAwaited = false;
      const timer = setTimeout(() => {
        this.#again.delete(timer);
        this.#connect(index);
      }, AGAIN_AFTER_MS);
      this.#again.add(timer);
    });
  }

  [Symbol.dispose](): void {
    for (const timer of this.#again) clearTimeout(timer);
    for (const socket of this.#sockets.values()) socket.removeAllListeners('close').terminate();
  }
}
