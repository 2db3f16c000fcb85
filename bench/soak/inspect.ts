import { isMainThread } from 'node:worker_threads';
import type { Worker } from 'mediasoup/types';
import { INSPECT_SIGNAL, INSPECTED, type Inspection } from './inspection.ts';

/** Module loaded into a gateway before it starts (`--import`): a signal makes it print the resources of the process. */

async function inspect(workers: Iterable<Worker>): Promise<Inspection> {
  const dumps = await Promise.all([...workers].map((worker) => worker.dump()));
  globalThis.gc?.();
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  const sum = (count: (dump: (typeof dumps)[number]) => number) =>
    dumps.reduce((total, dump) => total + count(dump), 0);
  return {
    heapBytes: process.memoryUsage().heapUsed,
    resources,
    routers: sum(({ routerIds }) => routerIds.length),
    mediaObjects: sum(
      ({ channelMessageHandlers, webRtcServerIds }) =>
        channelMessageHandlers.channelRequestHandlers.length - webRtcServerIds.length,
    ),
  };
}

/** False in the usage worker and the mixing threads of a gateway, which Node starts with the same options. */
const isGateway = isMainThread && process.argv[1]?.endsWith('main.ts') === true;
if (isGateway) {
  const { observer } = await import('mediasoup');
  const workers = new Set<Worker>();
  observer.on('newworker', (worker) => {
    workers.add(worker);
    worker.observer.once('close', () => workers.delete(worker));
  });
  process.on(INSPECT_SIGNAL, () => {
    inspect(workers).then(
      (inspection) => process.stdout.write(`${INSPECTED}${JSON.stringify(inspection)}\n`),
      (fault: unknown) => process.stderr.write(`not inspected: ${String(fault)}\n`),
    );
  });
}
