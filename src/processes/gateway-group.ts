import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { FastifyBaseLogger } from 'fastify';
import { environmentOf, type Settings } from '../../config/settings.ts';
import type { Timings } from '../../config/timings.ts';
import { KeptProcess } from '../children/kept-process.ts';
import { detachSocket } from '../handover/detach-socket.ts';
import type { FromGateway, ToGateway } from './messages.ts';
import { nameOfGateway, ProcessStates, type ToldStates } from './process-states.ts';

const GATEWAY = fileURLToPath(new URL('./gateway-main.ts', import.meta.url));

/** The gateway processes of a supervisor: passes messages among them, and tells each the states of all. */
export class GatewayGroup {
  /** Called when a gateway process is asked to drain all of them. */
  onDrain: (by: string, withinMs: number) => void = () => {};
  readonly #settings: Settings;
  readonly #timings: Timings;
  readonly #log: FastifyBaseLogger;
  readonly #states = new ProcessStates((told) => this.#tellStates(told));
  readonly #gateways: Gateway[] = [];
  #beat: NodeJS.Timeout | undefined;

  constructor(settings: Settings, timings: Timings, log: FastifyBaseLogger) {
    this.#settings = settings;
    this.#timings = timings;
    this.#log = log;
  }

  /**
   * Starts all processes, and resolves with their address when all admit clients.
   * @throws {Error} if one of them cannot be started
   */
  async start(): Promise<string> {
    for (let index = 0; index < this.#settings.PROCESSES; index += 1) {
      const gateway = startGateway(this.#settings, this.#timings, index, this.#log, {
        onMessage: (...message) => this.#receive(index, ...message),
        onSilent: () => this.#states.silent(index),
        onEnd: (isWell) => this.#states.ended(index, isWell),
      });
      this.#gateways.push(gateway);
    }
    const tell = () => this.#tellStates(this.#states.told);
    this.#beat = setInterval(tell, this.#timings.processes.aliveEveryMs);
    const [url = ''] = await Promise.all(this.#gateways.map(({ ready }) => ready));
    return url;
  }

  /** Drains all processes, and resolves when they have ended. */
  async leave(by: string, withinMs: number): Promise<void> {
    const message: ToGateway = { type: 'drain', withinMs, by };
    await Promise.all(this.#gateways.map(({ kept }) => kept.leave(message, withinMs)));
  }

  /** Shortens the time of a drain that has begun. */
  hurry(by: string, withinMs: number): void {
    this.#tellAll({ type: 'drain', withinMs, by });
  }

  /** Ends all processes at once. */
  async close(): Promise<void> {
    await Promise.all(this.#gateways.map(({ kept }) => kept.close()));
    clearInterval(this.#beat);
  }

  #receive(from: number, message: FromGateway, connection?: Socket): void {
    switch (message.type) {
      case 'drain':
        this.onDrain(message.by, message.withinMs);
        break;
      case 'alive':
        this.#states.alive(from, message.takesClients);
        break;
      case 'move':
        if (connection && detachSocket(connection))
          this.#tell(message.to, { type: 'moved', client: message.client }, connection);
        break;
      case 'ask metrics':
        for (const index of this.#gateways.keys())
          if (index !== from) this.#tell(index, { ...message, from });
        break;
      case 'metrics': {
        const { to, question, families } = message;
        this.#tell(to, { type: 'metrics', from, question, families });
        break;
      }
      case 'ready':
      case 'failed':
        // Handled where the process is started.
        break;
    }
  }

  #tell(index: number, message: ToGateway, connection?: Socket): void {
    this.#gateways[index]?.kept.send(message, connection);
  }

  #tellAll(message: ToGateway): void {
    for (const index of this.#gateways.keys()) this.#tell(index, message);
  }

  #tellStates(told: ToldStates): void {
    this.#tellAll({ type: 'processes', ...told });
  }
}

type Gateway = {
  kept: KeptProcess;
  /** Resolves with the gateway's address when it first admits clients; rejects if it could not start. */
  ready: Promise<string>;
};

function startGateway(
  settings: Settings,
  timings: Timings,
  index: number,
  log: FastifyBaseLogger,
  events: {
    onMessage: (message: FromGateway, connection?: Socket) => void;
    /** Called when the process seems to hang. */
    onSilent: () => void;
    /**
     * Called when the process ended without the supervisor's request. `isWell`: true if its exit code was 0, as after a signal from the
     * operator.
     */
    onEnd: (isWell: boolean) => void;
  },
): Gateway {
  const name = nameOfGateway(index);
  const ready = Promise.withResolvers<string>();
  const onMessage = (message: FromGateway, connection?: Socket) => {
    events.onMessage(message, connection);
    if (message.type === 'ready') ready.resolve(message.url);
    if (message.type === 'failed') {
      log.error({ process: name, reason: message.reason }, 'gateway not started');
      ready.reject(new Error(message.reason));
    }
  };
  const kept = new KeptProcess(
    {
      name,
      command: [...process.execArgv, GATEWAY, String(index), String(settings.PROCESSES - 1)],
      environment: environmentOf(settingsOfGateway(settings, index), timings),
      endSignal: 'SIGINT',
      timings: timings.processes,
      onMessage: (message, connection) => onMessage(message as FromGateway, connection),
      onSilent: events.onSilent,
      onEnd: (how, isWell) => {
        events.onEnd(isWell);
        ready.reject(new Error(`${name} ended before it was ready: ${how}`));
      },
    },
    log,
  );
  return { kept, ready: ready.promise };
}

/**
 * Returns the settings of one gateway process: those of the supervisor, with WebRTC ports of its own, and
 * without the demo account and usage workers, which the supervisor opens.
 */
const settingsOfGateway = (settings: Settings, index: number): Settings => ({
  ...settings,
  PROCESSES: 1,
  RTC_PORT: settings.RTC_PORT + index * settings.MEDIA_WORKERS,
  DEMO_ACCOUNT: false,
  USAGE_WORKERS: 0,
});
