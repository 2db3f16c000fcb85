import type { Socket } from 'node:net';
import { readSettings } from '../../config/settings.ts';
import { readTimings, type Timings } from '../../config/timings.ts';
import { openApp } from '../app.ts';
import type { App, Shared } from '../app/opening.ts';
import { endOnSignals, OWNER_ONLY_UMASK, describeStartupError } from './end-on-signals.ts';
import type { FromGateway, ToGateway } from './messages.ts';
import { drainOnUnhandledRejection } from './last-resort.ts';
import { GroupHealth } from './group-health.ts';
import { OtherMetrics } from './other-metrics.ts';
import { OtherProcesses } from './other-processes.ts';
import { nameOfGateway } from './process-states.ts';
import { tellParent } from './tell-parent.ts';
import { sendSocket } from '../handover/send-socket.ts';

/**
 * Entry point of a gateway process that a supervisor starts: `gateway-main.ts INDEX OTHERS`, where OTHERS is
 * the number of the other processes.
 */

const tell = (message: FromGateway) => tellParent(message);

const tellAlive = (app: App) => tell({ type: 'alive', takesClients: app.takesClients() });

/** Parts by which this process and the other gateway processes know of each other. */
type Others = { health: GroupHealth; metrics: OtherMetrics; processes: OtherProcesses };

function connectOthers(index: string, count: number, timings: Timings): Others {
  const metrics = new OtherMetrics(
    count,
    (question) => tell({ type: 'ask metrics', question }),
    timings.processes.answerWithinMs,
  );
  const processes = new OtherProcesses(Number(index), count, (to, client, connection) => {
    const message: FromGateway = { type: 'move', to, client };
    sendSocket(process, message, connection, timings.processes.acceptWithinMs);
  });
  return { health: new GroupHealth(), metrics, processes };
}

/** Returns what {@link endOnSignals} ends: the supervisor is told when the app begins to leave or to close. */
function runningOf(app: App) {
  return {
    app,
    log: app.log,
    close: () => {
      const closed = app.close();
      tellAlive(app);
      return closed;
    },
    // A signal to this process alone drains it; the supervisor starts another in its place.
    leave: (by: string) => {
      app.stopListening();
      const left = app.leave(undefined, by);
      tellAlive(app);
      return left;
    },
  };
}

/** Handles the supervisor's messages. */
function listenToSupervisor(app: App, { health, metrics, processes }: Others): void {
  const answer = (to: number, question: number) => {
    app.readMetrics().then(
      (families) => tell({ type: 'metrics', to, question, families }),
      (fault: unknown) => app.log.error({ err: fault }, 'metrics not sent to another process'),
    );
  };
  process.on('message', (message: ToGateway, connection?: Socket) => {
    switch (message.type) {
      case 'drain':
        app.leave(message.withinMs, message.by).catch((fault: unknown) => {
          app.log.error({ err: fault }, 'process not closed cleanly');
        });
        break;
      case 'ask metrics':
        answer(message.from, message.question);
        break;
      case 'metrics':
        metrics.receive(message.from, message.question, message.families);
        break;
      case 'processes':
        processes.setOpen(message.open);
        health.heard(message);
        break;
      case 'moved':
        // The client may have closed it in transit.
        if (connection) app.takeOver(message.client, connection);
        break;
    }
  });
  // The channel must not keep the process alive when everything else has been closed.
  process.channel?.unref();
}

/** Tells the supervisor regularly that this process is alive, until the end, also during a drain. */
function startBeat(app: App, health: GroupHealth, everyMs: number): void {
  tellAlive(app);
  const beat = () => {
    health.beat();
    tellAlive(app);
  };
  // The timer does not keep the process alive.
  setInterval(beat, everyMs).unref();
}

async function main(): Promise<void> {
  process.umask(OWNER_ONLY_UMASK);
  const [, , index = '0', count = '0'] = process.argv;
  const timings = readTimings(process.env);
  const others = connectOthers(index, Number(count), timings);
  const shared: Shared = {
    name: nameOfGateway(index),
    processes: Number(count) + 1,
    homes: others.processes,
    drainAll: (withinMs, by) => tell({ type: 'drain', withinMs, by }),
    readOtherMetrics: () => others.metrics.read(),
    health: others.health,
  };
  const open = async (abort: AbortSignal) =>
    runningOf(await openApp(readSettings(process.env), timings, shared, abort));
  // SIGINT closes at once, without a drain: the supervisor sends it, or the kernel when the
  // supervisor was killed.
  const opened = await endOnSignals(open, { closesOn: 'SIGINT' });
  if (!opened) return;
  drainOnUnhandledRejection(opened);
  const { app } = opened;
  listenToSupervisor(app, others);
  tell({ type: 'ready', url: app.url });
  startBeat(app, others.health, timings.processes.aliveEveryMs);
}

main().catch((fault: unknown) => {
  tell({ type: 'failed', reason: describeStartupError(fault) });
  process.exitCode = 1;
});
