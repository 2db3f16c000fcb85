import type { Socket } from 'node:net';
import { readSettings } from '../../config/settings.ts';
import { readTimings } from '../../config/timings.ts';
import { type App, openApp } from '../app.ts';
import { endOnSignals, whyNotStarted } from './end-on-signals.ts';
import type { FromGateway, ToGateway } from './messages.ts';
import { drainOnUnhandledRejection } from './last-resort.ts';
import { OtherMetrics } from './other-metrics.ts';
import { OtherProcesses } from './other-processes.ts';
import { sendConnection } from './send-connection.ts';

/** One of the gateways that a supervisor has started: `gateway-main.ts INDEX OTHERS`, of which there are so many. */

const tell = (message: FromGateway) => {
  // Should the supervisor be gone, the kernel ends this process too.
  if (process.connected) process.send?.(message);
};

const tellAlive = (app: App) => tell({ type: 'alive', takesClients: app.takesClients() });

async function main(): Promise<void> {
  const [, , index = '0', others = '0'] = process.argv;
  const timings = readTimings(process.env);
  const otherMetrics = new OtherMetrics(
    Number(others),
    (question) => tell({ type: 'ask metrics', question }),
    timings.processes.answerWithinMs,
  );
  const processes = new OtherProcesses(Number(index), Number(others), (to, client, connection) => {
    const message: FromGateway = { type: 'move', to, client };
    sendConnection(process, message, connection);
  });
  const opening = openApp(readSettings(process.env), timings, {
    name: `gateway ${index}`,
    homes: processes,
    drainAll: (withinMs) => tell({ type: 'drain', withinMs }),
    readOtherMetrics: () => otherMetrics.read(),
  });
  const running = await endOnSignals(
    opening.then((app) => ({
      log: app.log,
      close: () => {
        const closed = app.close();
        tellAlive(app);
        return closed;
      },
      // Asked alone, it makes way for the others; the supervisor starts another in its place.
      leave: () => {
        app.stopListening();
        const left = app.leave();
        tellAlive(app);
        return left;
      },
    })),
  );
  drainOnUnhandledRejection(running);
  const app = await opening;
  const answer = (to: number, question: number) => {
    app.readMetrics().then(
      (families) => tell({ type: 'metrics', to, question, families }),
      (fault: unknown) => app.log.error({ err: fault }, 'no figures for another process'),
    );
  };
  process.on('message', (message: ToGateway, connection?: Socket) => {
    switch (message.type) {
      case 'drain':
        app.leave(message.withinMs).catch((fault: unknown) => {
          app.log.error({ err: fault }, 'not closed cleanly');
        });
        break;
      case 'ask metrics':
        answer(message.from, message.question);
        break;
      case 'metrics':
        otherMetrics.receive(message.from, message.question, message.families);
        break;
      case 'open':
        processes.setOpen(message.processes);
        break;
      case 'moved':
        // It may have been closed on its way.
        if (connection) app.takeOver(message.client, connection);
        break;
    }
  });
  // It must not keep the process when all else has been closed.
  process.channel?.unref();
  tell({ type: 'ready', url: app.url });
  // To the end, also while clients leave; it keeps nothing from ending.
  tellAlive(app);
  setInterval(() => tellAlive(app), timings.processes.aliveEveryMs).unref();
}

main().catch((fault: unknown) => {
  tell({ type: 'failed', reason: whyNotStarted(fault) });
  process.exitCode = 1;
});
