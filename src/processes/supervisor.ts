import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { FastifyBaseLogger } from 'fastify';
import { environmentOf, type Settings } from '../../config/settings.ts';
import type { Timings } from '../../config/timings.ts';
import { type DemoAccount, openDemoAccount } from '../accounts/demo-account.ts';
import { openLog } from '../log.ts';
import { detachSocket } from '../handover/detach-socket.ts';
import { Redis } from '../store/redis.ts';
import { VERSION } from '../version.ts';
import { openRedisUrl, redisAddressOf } from '../store/open-redis.ts';
import { claimFormat } from '../store/state-format.ts';
import type { Running } from './end-on-signals.ts';
import { KeptProcess } from '../children/kept-process.ts';
import type { FromGateway, ToGateway } from './messages.ts';
import { nameOfGateway, ProcessStates, type ToldStates } from './process-states.ts';
import { startUsageWorker } from '../children/usage-worker-process.ts';

const GATEWAY = fileURLToPath(new URL('./gateway-main.ts', import.meta.url));

/** A supervisor with its gateway processes: their common address, and the demo account if there is one. */
export type Supervisor = Running & { url: string; demo: DemoAccount | undefined };

/**
 * Starts `PROCESSES` gateways on the same port. The kernel distributes connections among them; one that
 * ends is started again.
 * @param abort aborts the wait for Redis
 * @throws {Error} if a gateway process cannot be started; everything that was opened is closed first
 */
export async function openSupervisor(
  settings: Settings,
  timings: Timings,
  abort: AbortSignal,
): Promise<Supervisor> {
  const opened = new AsyncDisposableStack();
  try {
    return await openParts(settings, timings, opened, abort);
  } catch (fault) {
    await opened.disposeAsync();
    throw fault;
  }
}

async function openParts(
  given: Settings,
  timings: Timings,
  opened: AsyncDisposableStack,
  abort: AbortSignal,
): Promise<Supervisor> {
  const log = openLog(given, 'supervisor');
  log.info({ version: VERSION, node: process.version }, 'supervisor starting');
  const settings = {
    ...given,
    REDIS_URL: await openRedisUrl({
      settings: given,
      timings: timings.redis,
      opened,
      log,
      abort,
    }),
    PORT: await findPort(given),
  };
  const demo = await openDemo(settings, log, timings, abort);
  for (let worker = 0; worker < settings.USAGE_WORKERS; worker += 1) {
    opened.adopt(startUsageWorker(settings, log, timings), (part) => part.close());
  }
  let leaving: Promise<void> | undefined;
  const end = async (message: ToGateway & { type: 'drain' }) => {
    const { withinMs, by } = message;
    log.info({ by, withinMs, processes: gateways.length }, 'drain of all processes began');
    await Promise.all(gateways.map(({ kept }) => kept.leave(message, withinMs)));
    log.info('drain of all processes ended');
    await opened.disposeAsync();
  };
  const leave = (by: string, withinMs = settings.DRAIN_MS) => {
    const message = { type: 'drain', withinMs, by } as const;
    // A further request can only shorten the time.
    if (leaving) for (const { kept } of gateways) kept.send(message);
    leaving ??= end(message);
    return leaving;
  };
  const onDrain = (by: string, withinMs: number) => {
    leave(by, withinMs).catch((fault: unknown) =>
      log.error({ err: fault }, 'process not closed cleanly'),
    );
  };
  const tellStates = (told: ToldStates) => {
    const message: ToGateway = { type: 'processes', ...told };
    for (const { kept } of gateways) kept.send(message);
  };
  const states = new ProcessStates(tellStates);
  const onMessage = (from: number, message: FromGateway, connection?: Socket) => {
    if (message.type === 'drain') onDrain(message.by, message.withinMs);
    if (message.type === 'alive') states.alive(from, message.takesClients);
    if (message.type === 'move' && connection && detachSocket(connection)) {
      const moved: ToGateway = { type: 'moved', client: message.client };
      gateways[message.to]?.kept.send(moved, connection);
    }
    if (message.type === 'ask metrics') {
      const asked: ToGateway = { ...message, from };
      for (const [index, { kept }] of gateways.entries()) if (index !== from) kept.send(asked);
    }
    if (message.type === 'metrics') {
      const { to, question, families } = message;
      const answer: ToGateway = { type: 'metrics', from, question, families };
      gateways[to]?.kept.send(answer);
    }
  };
  const gateways = Array.from({ length: settings.PROCESSES }, (_, index) =>
    startGateway(settings, timings, index, log, {
      onMessage: (...message) => onMessage(index, ...message),
      onSilent: () => states.silent(index),
      onEnd: (isWell) => states.ended(index, isWell),
    }),
  );
  const beat = setInterval(() => tellStates(states.told), timings.processes.aliveEveryMs);
  opened.defer(() => clearInterval(beat));
  opened.defer(async () => {
    await Promise.all(gateways.map(({ kept }) => kept.close()));
  });
  const [url = ''] = await Promise.all(gateways.map(({ ready }) => ready));
  return { url, demo, log, leave, close: () => opened.disposeAsync() };
}

type Gateway = {
  kept: KeptProcess;
  /** Resolves with its address when it first admits clients; rejects if it could not start. */
  ready: Promise<string>;
};

function startGateway(
  settings: Settings,
  timings: Timings,
  index: number,
  log: FastifyBaseLogger,
  events: {
    onMessage: (message: FromGateway, connection?: Socket) => void;
    /** Called when it seems to hang. */
    onSilent: () => void;
    /** Called when it ended without the supervisor's request; `isWell` if with exit code 0, as after a signal of the operator. */
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

async function openDemo(
  settings: Settings,
  log: FastifyBaseLogger,
  timings: Timings,
  abort: AbortSignal,
): Promise<DemoAccount | undefined> {
  const redis = await Redis.connect(redisAddressOf(settings), log, timings.redis, { abort });
  try {
    await claimFormat(redis, timings.nodes.deadAfterMs);
    return await openDemoAccount(redis, settings, log);
  } finally {
    await redis.close();
  }
}

/**
 * Returns the port that all processes will share, and checks that it is free: the kernel would let them share
 * it with another gateway too.
 * @throws {Error} if it is taken
 */
async function findPort({ HOST: host, PORT: port }: Settings): Promise<number> {
  const server = createServer().listen({ host, port });
  await once(server, 'listening');
  const found = (server.address() as AddressInfo).port;
  server.close();
  await once(server, 'close');
  return found;
}
