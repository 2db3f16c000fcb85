import { pipeAddressesOf, rtcAddressesOf } from '../../config/listen-addresses.ts';
import { Cluster } from '../cluster/cluster.ts';
import { MediaWorkerPool } from '../media/media-worker-pool.ts';
import type { Store } from './open-store.ts';
import type { Opening } from './opening.ts';

export type Media = { pool: MediaWorkerPool; cluster: Cluster };

/** Starts the media workers, then joins the other nodes, whose pipes end in them. */
export async function openMedia(opening: Opening, { redis }: Store): Promise<Media> {
  const { settings, timings, log, opened } = opening;
  const pool = opened.adopt(
    await MediaWorkerPool.open(
      {
        mediaWorkers: settings.MEDIA_WORKERS,
        workerBin: settings.MEDIASOUP_WORKER_BIN,
        rtcAddresses: () => rtcAddressesOf(settings),
        rtcPort: settings.RTC_PORT,
        routerMaxConsumers: settings.ROUTER_MAX_CONSUMERS,
        timings: timings.mediaWorkers,
      },
      log,
    ),
    (part) => part.close(),
  );
  const cluster = opened.adopt(
    await Cluster.open(
      redis,
      {
        clusterKey: settings.CLUSTER_KEY,
        pipes: {
          addresses: pipeAddressesOf(settings),
          portRange: { min: settings.PIPE_PORT_MIN, max: settings.PIPE_PORT_MAX },
        },
      },
      log,
      timings,
    ),
    (part) => part.close(settings.RESUME_MS),
  );
  return { pool, cluster };
}
