import { count, type Definition, gauge } from './metric-snapshot.ts';

/** Metrics of clients, nodes, processes, Redis, minutes and webhooks. */
export const STATE_METRICS: Definition[] = [
  gauge(
    'build_info',
    'Always 1; the label is the running version',
    ({ version }) => ({ [version]: 1 }),
    'version',
  ),
  gauge('sessions', 'Clients that are connected', ({ sessions }) => sessions),
  count(
    'connections_not_accepted_total',
    'Connections that were closed on arrival or before authentication, for lack of file descriptors',
    ({ counters }) => counters.connectionsNotAccepted,
  ),
  gauge('rooms', 'Rooms that are open', ({ rooms }) => rooms),
  gauge('websocket_peers', 'Legacy clients in rooms', ({ peers }) => peers.websocket),
  gauge('webrtc_peers', 'Browsers in rooms', ({ peers }) => peers.webrtc),
  gauge(
    'kept_places',
    'Peers whose connection is lost and whose place is kept',
    ({ keptPlaces }) => keptPlaces,
  ),
  gauge('ready', 'Whether the node admits new clients', ({ isReady }) => (isReady ? 1 : 0)),
  gauge('draining', 'Whether the node drains', ({ isDraining }) => (isDraining ? 1 : 0)),
  count(
    'seal_faults_total',
    'Messages of other nodes whose seal was wrong',
    ({ counters }) => counters.sealFaults,
  ),
  count(
    'pipe_faults_total',
    'Pipes to other nodes that failed or were cut, and producers that could not be piped',
    ({ counters }) => counters.pipeFaults,
  ),
  gauge(
    'nodes',
    'Living gateway processes of all nodes, as this one sees them',
    ({ nodes }) => nodes,
  ),
  gauge(
    'unreachable_nodes',
    'Nodes that share a room with this one, and have no address family in common with it',
    ({ unreachableNodes }) => unreachableNodes,
  ),
  gauge(
    'silent_nodes',
    'Nodes from which nothing comes back of the audio that is sent to them',
    ({ silentNodes }) => silentNodes,
  ),
  gauge(
    'hung_processes',
    'Other processes of the group that hang',
    ({ processes }) => processes.hung.length,
  ),
  count(
    'gateway_deaths_total',
    'Gateway processes of the group that died, or hung and were killed',
    ({ processes }) => processes.deaths,
  ),
  gauge('pipes', 'Ends of pipes to other nodes that are connected', ({ pipes }) => pipes.ends),
  gauge(
    'relays',
    'Connections to other nodes for messages of unknown formats',
    ({ relays }) => relays,
  ),
  count(
    'relayed_messages_total',
    'Messages of unknown formats from (in) and to (out) other nodes',
    ({ counters }) => counters.relayed,
    'direction',
  ),
  count(
    'relay_faults_total',
    'Connections to other nodes for such messages that failed or were cut',
    ({ counters }) => counters.relayFaults,
  ),
  count(
    'relay_refusals_total',
    'Connections to the port for such messages that did not have the key',
    ({ counters }) => counters.relayRefusals,
  ),
  gauge(
    'media_workers',
    'Media workers that run',
    ({ mediaWorkers }) => mediaWorkers.filter(({ state }) => state === 'running').length,
  ),
  gauge(
    'media_workers_missing',
    'Media workers that were lost and are not replaced yet',
    ({ mediaWorkers }) => mediaWorkers.filter(({ state }) => state === 'replacing').length,
  ),
  count(
    'media_worker_restarts_total',
    'Media workers that were started in place of others',
    ({ mediaWorkers }) => mediaWorkers.reduce((sum, { restarts }) => sum + restarts, 0),
  ),
  gauge('redis_up', 'Whether Redis answers and accepts writes', ({ backlog }) => (backlog ? 1 : 0)),
  gauge('open_minutes', 'Minutes that wait to be closed', ({ backlog }) => backlog?.openMinutes),
  gauge(
    'oldest_open_minute_age_seconds',
    'Time since the end of the oldest minute that waits to be closed',
    ({ backlog }) => backlog && backlog.oldestOpenMinuteMs / 1000,
  ),
  gauge('usage_workers', 'Usage workers that are alive', ({ backlog }) => backlog?.workers.alive),
  gauge(
    'usage_worker_clock_offset_seconds',
    "Most by which a usage worker's own clock differs from Redis's",
    ({ backlog }) => backlog && backlog.workers.maxOffsetMs / 1000,
  ),
  gauge(
    'clock_offset_seconds',
    "How far this machine's clock is ahead of Redis's",
    ({ clock }) => clock.offsetMs / 1000,
  ),
  count(
    'redis_clock_jumps_total',
    "Times that Redis's clock has jumped",
    ({ clock }) => clock.jumps,
  ),
  gauge(
    'usage_jobs_waiting',
    'Jobs that wait for a usage worker',
    ({ backlog }) => backlog?.waitingJobs,
  ),
  gauge(
    'webhook_rooms_waiting',
    'Rooms whose events wait to be sent',
    ({ backlog }) => backlog?.webhooks.rooms,
  ),
  gauge(
    'webhook_events_dropped',
    'Events that were given up, by all nodes',
    ({ backlog }) => backlog?.webhooks.dropped,
  ),
  gauge(
    'webhook_events_waiting',
    'Events that wait to be sent',
    ({ backlog }) => backlog?.webhooks.events,
  ),
  gauge(
    'webhook_oldest_event_age_seconds',
    'Age of the oldest event that waits',
    ({ backlog }) => backlog && backlog.webhooks.oldestMs / 1000,
  ),
];
