import type { Socket } from 'node:net';
import { readSettings } from '../../config/settings.ts';
import { readTimings } from '../../config/timings.ts';
import { openApp } from '../app.ts';
import type { App, Shared } from '../app/opening.ts';
import { endOnSignals, OWNER_ONLY_UMASK, describeStartupError } from './end-on-signals.ts';
import type { FromGateway, ToGateway } from './messages.ts';
import { drainOnUnhandledRejection } from './last-resort.ts';
import { NodeHealth } from './node-health.ts';
import { OtherMetrics } from './other-metrics.ts';
import { OtherProcesses } from './other-processes.ts';
import { nameOfGateway } from './process-states.ts';
import { sendSocket } from '../handover/send-socket.ts';

/**
 * Entry point of a gateway process that a supervisor starts: `gateway-main.ts INDEX OTHERS`, where OTHERS is
 * the number of the other processes.
 */

const tell = (message: FromGateway) => {
  // If the supervisor dies, the kernel ends this process too.
  if (process.connected) process.send?.(message);
};

const tellAlive = (app: App) => tell({ type: 'alive', takesClients: app.takesClients() });

async function main(): Promise<void> {
  process.umask(OWNER_ONLY_UMASK);
  const [, , index = '0', others = '0'] = process.argv;
  const timings = readTimings(process.env);
  const otherMetrics = new OtherMetrics(
    Number(others),
    (question) => tell({ type: 'ask metrics', question }),
    timings.processes.answerWithinMs,
  );
  const processes = new OtherProcesses(Number(index), Number(others), (to, client, connection) => {
    const message: FromGateway = { type: 'move', to, client };
    sendSocket(process, message, connection);
  });
  const health = new NodeHealth();
  const open = async (abort: AbortSignal) => {
    const shared: Shared = {
      name: nameOfGateway(index),
      processes: Number(others) + 1,
      homes: processes,
      drainAll: (withinMs, by) => tell({ type: 'drain', withinMs, by }),
      readOtherMetrics: () => otherMetrics.read(),
      health,
    };
    const app = await openApp(readSettings(process.env), timings, shared, abort);
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
  };
  // SIGINT closes at once, without a drain: the supervisor sends it, or the kernel when the supervisor was killed.
  const opened = await endOnSignals(open, { closesOn: 'SIGINT' });
  if (!opened) return;
  drainOnUnhandledRejection(opened);
  const { app } = opened;
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
        otherMetrics.receive(message.from, message.question, message.families);
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
  tell({ type: 'ready', url: app.url });
  // Sent until the end, also during a drain; the timer does not keep the process alive.
  tellAlive(app);
  const beat = () => {
    health.beat();
    tellAlive(app);
  };
  setInterval(beat, timings.processes.aliveEveryMs).unref();
}

main().catch((fault: unknown) => {
  tell({ type: 'failed', reason: describeStartupError(fault) });
  process.exitCode = 1;
});
