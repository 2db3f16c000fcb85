import type { FastifyInstance } from 'fastify';
import type { Settings } from '../config/settings.ts';
import type { Timings } from '../config/timings.ts';
import { Shutdown } from './app/shutdown.ts';
import { NodeState } from './app/node-state.ts';
import { openAccounts } from './app/open-accounts.ts';
import { openAudio } from './app/open-audio.ts';
import { openClients } from './app/open-clients.ts';
import { openLoad, openMemoryTrim, openReserves } from './app/open-load.ts';
import { openMedia } from './app/open-media.ts';
import { openRooms } from './app/open-rooms.ts';
import { openRoutes } from './app/open-routes.ts';
import { openStore } from './app/open-store.ts';
import { openReporter, openUsage } from './app/open-usage.ts';
import type { App, Opening, ProcessesHealth, Shared } from './app/opening.ts';
import { Metrics } from './http/metrics.ts';
import { newServer, startListening, urlOf } from './http/server.ts';
import { UnauthenticatedConnections } from './http/unauthenticated-connections.ts';
import { logClients } from './load/supplies.ts';
import { PeerTakeover } from './admission/peer-takeover.ts';
import { VERSION } from './version.ts';

/** Health of a gateway that is the only process of its group. */
const ALONE: ProcessesHealth = { hung: [], deaths: 0 };

/**
 * Opens every part of a gateway, each with its settings.
 * @param shared given if other gateway processes share the port
 * @param abort aborts the wait for Redis
 * @throws {Error} if a part cannot be opened; those opened before it are closed
 */
export async function openApp(
  settings: Settings,
  timings: Timings,
  shared?: Shared,
  abort?: AbortSignal,
): Promise<App> {
  const opened = new AsyncDisposableStack();
  try {
    const server = await newServer(settings, timings.http, shared?.name);
    const { log } = server;
    return await openParts({ settings, timings, opened, log, shared, abort }, server);
  } catch (fault) {
    await opened.disposeAsync();
    throw fault;
  }
}

async function openParts(opening: Opening, server: FastifyInstance): Promise<App> {
  const { settings, timings, log, opened, shared } = opening;
  log.info({ version: VERSION, node: process.version }, 'gateway starting');
  const store = await openStore(opening);
  const accounts = await openAccounts(opening, store);
  const clients = await openClients(opening, store, accounts);
  const usage = await openUsage(opening, store, accounts, clients);
  const media = await openMedia(opening, store);
  const { sessions, places } = clients;
  const { pool, cluster } = media;
  const takeover = new PeerTakeover(cluster.bus, sessions, places, timings.sessions);
  const audio = await openAudio(opening);
  const load = openLoad(opening, media, audio);
  openReporter(opening, store, usage, clients);
  const rooms = openRooms(opening, store, usage, media, audio);
  // Closed before the rooms, whose end lets requests of kept browsers fail.
  opened.adopt(places, (part) => part.close());
  const unauthenticated = new UnauthenticatedConnections(settings.CONNECTIONS_PER_ADDRESS);
  const { reserves, supplies } = openReserves(opening, server.server, {
    ...store,
    ...media,
    rooms,
    unauthenticated,
  });
  openMemoryTrim(opening, load.monitor, reserves);
  const metrics = new Metrics(shared?.name);
  const shutdown = new Shutdown(opening, clients, media);
  const state = new NodeState(
    {
      ...store,
      ...media,
      clients,
      usage,
      audio,
      load,
      reserves,
      rooms,
      metrics,
      health: shared?.health ?? ALONE,
    },
    timings,
  );
  const takeOver = await openRoutes(opening, server, {
    store,
    accounts,
    clients,
    usage,
    media,
    audio,
    load,
    reserves,
    unauthenticated,
    rooms,
    takeover,
    metrics,
    shutdown,
    state,
  });
  opened.adopt(server, (part) => part.close());
  reserves.sample();
  logClients(log, supplies);
  await startListening(server, settings, shared !== undefined);
  return {
    log,
    url: urlOf(server, settings),
    demo: accounts.demo,
    counts: () => ({ sessions: sessions.size, rooms: rooms.size }),
    countRouters: () => pool.countRouters(),
    mediaWorkerPids: () => pool.pids,
    readMetrics: () => state.readMetrics(),
    takesClients: () => !shutdown.isClosing && state.takesClients,
    takeOver: (client, connection) => {
      if (shutdown.isClosing) connection.destroy();
      else takeOver(client, connection);
    },
    stopListening: () => server.server.close(),
    leave: shutdown.drainAndClose,
    close: shutdown.close,
  };
}
