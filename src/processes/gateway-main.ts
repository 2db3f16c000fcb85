import { readSettings } from '../../config/settings.ts';
import { openApp } from '../app.ts';
import { endOnSignals, whyNotStarted } from './end-on-signals.ts';
import { ALIVE_EVERY_MS, type FromGateway, type ToGateway } from './messages.ts';
import { OtherMetrics } from './other-metrics.ts';

/** One of the gateways that a supervisor has started: `gateway-main.ts NAME OTHERS`, of which there are so many. */

const tell = (message: FromGateway) => {
  // Should the supervisor be gone, the kernel ends this process too.
  if (process.connected) process.send?.(message);
};

async function main(): Promise<void> {
  const [, , name = 'gateway', others = '0'] = process.argv;
  const otherMetrics = new OtherMetrics(Number(others), (question) =>
    tell({ type: 'ask metrics', question }),
  );
  const opening = openApp(readSettings(process.env), {
    name,
    drainAll: (withinMs) => tell({ type: 'drain', withinMs }),
    readOtherMetrics: () => otherMetrics.read(),
  });
  await endOnSignals(
    opening.then((app) => ({
      close: () => app.close(),
      // Asked alone, it makes way for the others; the supervisor starts another in its place.
      leave: () => {
        app.stopListening();
        return app.leave();
      },
    })),
  );
  const app = await opening;
  const answer = (to: number, question: number) => {
    app.readMetrics().then(
      (families) => tell({ type: 'metrics', to, question, families }),
      (fault: unknown) => app.log.error({ err: fault }, 'no figures for another process'),
    );
  };
  process.on('message', (message: ToGateway) => {
    if (message.type === 'drain') void app.leave(message.withinMs);
    else if (message.type === 'ask metrics') answer(message.from, message.question);
    else otherMetrics.receive(message.from, message.question, message.families);
  });
  // It must not keep the process when all else has been closed.
  process.channel?.unref();
  tell({ type: 'ready', url: app.url });
  // To the end, also while clients leave; it keeps nothing from ending.
  setInterval(() => tell({ type: 'alive' }), ALIVE_EVERY_MS).unref();
}

main().catch((fault: unknown) => {
  tell({ type: 'failed', reason: whyNotStarted(fault) });
  process.exitCode = 1;
});
