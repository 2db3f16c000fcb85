/**
 * Every key and channel of the gateway in Redis. Libraries add their own under a prefix: BullMQ under `bullmq`,
 * rate-limiter-flexible under `limit:`. The comment of a key has its type and contents, the processes that write it, and
 * when it or a part of it expires. The tables of docs/redis.md are made from these comments (`npm run docs`).
 */

/** Prefix of all keys and channels. */
export const KEY_PREFIX = 'partyline:';

// Accounts

/** Prefix of accounts. */
export const ACCOUNT_PREFIX = `${KEY_PREFIX}account:`;
/** Hash: fields of an account. Writers: REST, `npm run accounts`. Expiry: never. */
export const accountKey = (id: number) => `${ACCOUNT_PREFIX}${id}`;
/** Set: SHA-256 of each API key. Writers: REST, `npm run accounts`. Expiry: never. */
export const apiKeyHashesKey = (id: number) => `${ACCOUNT_PREFIX}${id}:keys`;
/** String: secret that signs webhooks. Writers: REST, `npm run accounts`. Expiry: never. */
export const webhookSecretKey = (id: number) => `${ACCOUNT_PREFIX}${id}:webhook_secret`;
/** String: last account id that was given. Writers: REST, `npm run accounts`. Expiry: never. */
export const LAST_ACCOUNT_ID = `${ACCOUNT_PREFIX}last_id`;
/**
 * Hash: where and when {@link LAST_ACCOUNT_ID} was given: `run` of the server, identity of the `file`, `at` in seconds.
 * Writers: REST, `npm run accounts`. Expiry: never.
 */
export const LAST_ACCOUNT_ID_GIVEN = `${ACCOUNT_PREFIX}last_id:given`;
/**
 * Hash: `account`, `created_at` and `last_used_at` of the API key with this SHA-256. Writers: REST, `npm run accounts`;
 * gateways, when the key is used. Expiry: never.
 */
export const apiKeyRecordKey = (hash: string) => `${KEY_PREFIX}key:${hash}`;
/** Set: ids of all accounts. Writers: REST, `npm run accounts`. Expiry: never. */
export const ALL_ACCOUNTS = `${KEY_PREFIX}accounts`;
/** Set: ids of accounts with a webhook. Writers: REST, `npm run accounts`. Expiry: never. */
export const ACCOUNTS_WITH_WEBHOOK = `${KEY_PREFIX}accounts:with_webhook`;
/** Channel: id of an account that has changed, or of which a key was revoked. */
export const ACCOUNT_CHANGES = `${KEY_PREFIX}account_changes`;
/** String: id of the demo account. Writers: start of a gateway. Expiry: never. */
export const DEMO_ACCOUNT_ID = `${KEY_PREFIX}demo_account`;
/** Set: ids of the API keys that starts have made for the demo account. Writers: start of a gateway. Expiry: never. */
export const DEMO_ACCOUNT_KEYS = `${KEY_PREFIX}demo_account:keys`;
/** String: gateway that creates the demo account or a key of it. Writers: start of a gateway. Expiry: 5 s. */
export const DEMO_ACCOUNT_TURN = `${KEY_PREFIX}demo_account:turn`;
/** List: keys that sign tokens, the newest first. Writers: gateways, `npm run accounts`. Expiry: never. */
export const SIGNING_KEYS = `${KEY_PREFIX}token_keys`;
/** Set: ids of withdrawn signing keys. Writers: `npm run accounts`. Expiry: a day. */
export const WITHDRAWN_SIGNING_KEYS = `${KEY_PREFIX}token_keys:withdrawn`;
/**
 * Set: ids of signing keys that are not kept any more, and were not withdrawn: connections that these keys admitted may
 * still be open. Writers: `npm run accounts`. Expiry: when all are withdrawn.
 */
export const FORMER_SIGNING_KEYS = `${KEY_PREFIX}token_keys:former`;
/** Channel: the signing keys have changed. */
export const SIGNING_KEY_CHANGES = `${KEY_PREFIX}token_key_changes`;
/** String: counter of a rate limiter. Writers: gateways. Expiry: a minute. */
export const limitPrefix = (limiter: string) => `${KEY_PREFIX}limit:${limiter}`;

// Connections

/**
 * Sorted set: peers of an account by the expiry of their leases, ms by Redis's clock. Writers: gateways. Expiry: two
 * leases, or `RESUME_MS` after a node has left or a client was lost in the lobby, if that is longer.
 */
export const leaseExpiriesKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}`;
/**
 * Hash: peer → connection. Writers: gateways. Expiry: two leases, or `RESUME_MS` after a node has left or a client was
 * lost in the lobby, if that is longer.
 */
export const leaseHoldersKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}:holders`;
/**
 * Hash: peer → room, session and kind. Writers: gateways. Expiry: two leases, or `RESUME_MS` after a node has left or
 * a client was lost in the lobby, if that is longer.
 */
export const leasePlacesKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}:places`;
/**
 * Hash: peer → session and its settings. Writers: gateways. Expiry: two leases, or `RESUME_MS` after a node has left
 * or a client was lost in the lobby, if that is longer.
 */
export const leaseSettingsKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}:settings`;
/**
 * Hash: peer → connection and the order of its lease. Writers: gateways. Expiry: two leases, or `RESUME_MS` after a node
 * has left or a client was lost in the lobby, if that is longer.
 */
export const leaseOrdersKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}:orders`;
/** String: order of the account's last lease. Writers: gateways. Expiry: two leases. */
export const leaseOrderKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}:order`;
/** Keys of an account's leases, in the order in which scripts get them. */
export const leaseKeys = (accountId: number) => [
  leaseExpiriesKey(accountId),
  leaseHoldersKey(accountId),
  leasePlacesKey(accountId),
  leaseSettingsKey(accountId),
  leaseOrdersKey(accountId),
];
/**
 * String: session and settings of a peer that lost its connection in the lobby. Writers: gateways. Expiry: `RESUME_MS`;
 * after an admission that failed, the longer of a lease and `RESUME_MS`.
 */
export const resumeKey = (accountId: number, peer: string) =>
  `${KEY_PREFIX}resume:${accountId}:${peer}`;

// Nodes

/**
 * Sorted set: nodes by their last heartbeat, ms by Redis's clock. Writers: gateways, each second. Expiry: members after 3 s
 * of silence.
 */
export const NODES = `${KEY_PREFIX}nodes`;
/**
 * Set: keys of the hashes in which the node has a field, to be removed when it is dead, and {@link nodeMark}. Writers:
 * gateways. Expiry: with the node.
 */
export const ownedKeysKey = (node: string) => `${KEY_PREFIX}node:${node}:traces`;
/** None: a member of {@link ownedKeysKey} that shows that the node was not removed; the key never exists. Writers: gateways. Expiry: –. */
export const nodeMark = (node: string) => `${KEY_PREFIX}node:${node}:known`;
/** String: the node left in order. Writers: gateways, when they end. Expiry: 30 s after the places that it keeps. */
export const departedKey = (node: string) => `${KEY_PREFIX}node:${node}:departed`;
/** Hash: node → fingerprint of its `CLUSTER_KEY`. Writers: gateways. Expiry: fields with their nodes. */
export const KEY_FINGERPRINTS = `${KEY_PREFIX}node_key_fingerprints`;
/** Hash: node → format and version of its state and messages. Writers: gateways. Expiry: fields with their nodes. */
export const NODE_FORMATS = `${KEY_PREFIX}node_formats`;
/**
 * Hash: `format` and `version` of all state, and the format from which it can be read (`readable_from`). Writers: start of
 * a gateway. Expiry: never.
 */
export const STATE_FORMAT = `${KEY_PREFIX}format`;
/** String: cluster key of nodes without a `CLUSTER_KEY`. Writers: gateways that find none. Expiry: never. */
export const SHARED_CLUSTER_KEY = `${KEY_PREFIX}cluster_key`;
/** Channel: messages of a node to all nodes, sealed. */
export const BUS_CHANNEL = `${KEY_PREFIX}bus`;
/** Channel: messages of other nodes to one node, sealed. */
export const nodeBusChannel = (node: string) => `${BUS_CHANNEL}:${node}`;
/** Prefix of rooms. */
const ROOM_PREFIX = `${KEY_PREFIX}room:`;
/**
 * Hash: node → its sealed state of the room. Writers: gateways. Expiry: fields with their nodes. Channel: a node and its
 * new state of the room.
 */
export const roomStateKey = (accountId: number, room: string) =>
  `${ROOM_PREFIX}${accountId}:${room}`;
const ROOM_STATE_KEY = new RegExp(`^${ROOM_PREFIX}(\\d+):`);
/** Returns the account in a {@link roomStateKey}; undefined for any other key. */
export function accountOfRoomStateKey(key: string): number | undefined {
  const id = ROOM_STATE_KEY.exec(key)?.[1];
  return id === undefined ? undefined : Number(id);
}
/**
 * None: a conditional write to this key changes nothing, and Redis refuses it whenever it refuses writes; the key never
 * exists. Writers: gateways. Expiry: –.
 */
export const WRITE_CHECK = `${KEY_PREFIX}write_check`;

// Minutes. They are named `2026-11-21T08:13`, days `2026-11-21`; scripts get the prefix, and put
// the same names together. A count is `websocketMs:webrtcMs:peak`.

/** Prefix of usage. */
export const USAGE_PREFIX = `${KEY_PREFIX}usage:`;
/**
 * Sorted set: account|minute of all minutes that wait to be closed, by the minute's number since 1970. Writers: gateways;
 * usage workers. Expiry: members when a usage worker has closed the minute.
 */
export const OPEN_MINUTES = `${USAGE_PREFIX}open`;
/**
 * Set: minutes of the account that wait to be closed. Writers: gateways; usage workers. Expiry: members when a usage worker
 * has closed the minute.
 */
export const openMinutesKey = (accountId: number) => `${OPEN_MINUTES}:${accountId}`;
/**
 * Hash: process|room → count; `=` → peer-ms that the month has of the minute. Writers: gateways; usage workers, when they
 * close it. Expiry: 48 h after the minute was closed.
 */
export const minuteKey = (accountId: number, minute: string) =>
  `${OPEN_MINUTES}:${accountId}:${minute}`;
/** Hash: month → peer-ms. Writers: gateways; usage workers, which add the part that is missing. Expiry: never. */
export const monthsKey = (accountId: number) => `${USAGE_PREFIX}months:${accountId}`;
/**
 * Hash: HH:MM|room → count, for the closed minutes of a day; about 750,000 fields at most. Writers: usage workers. Expiry:
 * `USAGE_KEEP_DAYS` after the last minute was closed.
 */
export const minuteRecordsKey = (accountId: number, day: string) =>
  `${USAGE_PREFIX}records:${accountId}:${day}`;
/**
 * Hash: HH|room → count; `=` if the whole day is in it (older days have minutes only); about 50,000 fields at most.
 * Writers: usage workers. Expiry: `USAGE_KEEP_DAYS` after the last minute was closed.
 */
export const hourRecordsKey = (accountId: number, day: string) =>
  `${USAGE_PREFIX}hours:${accountId}:${day}`;
/** Sorted set: usage workers by their last sign of life, ms. Writers: usage workers. Expiry: members after 35 s. */
export const USAGE_WORKERS = `${USAGE_PREFIX}workers`;
/**
 * Hash: usage worker → how far its clock is ahead of Redis's, ms. Writers: usage workers. Expiry: fields with the members.
 */
export const USAGE_WORKER_OFFSETS = `${USAGE_PREFIX}worker_offsets`;
/** Various: keys of BullMQ's queues. Writers: usage workers. Expiry: with the jobs. */
export const BULLMQ_PREFIX = `${KEY_PREFIX}bullmq`;
/** List: ids of the jobs that wait. Writers: usage workers. Expiry: with the jobs. */
export const waitingJobsKey = (queue: string) => `${BULLMQ_PREFIX}:${queue}:wait`;

// Webhooks. Room names have no line breaks; scripts get the prefix, and put the same names
// together.

/** Prefix of webhooks. */
export const WEBHOOK_PREFIX = `${KEY_PREFIX}webhooks:`;
/**
 * Hash: node → count of its heartbeats. Writers: gateways; usage workers, when a node is dead. Expiry: fields with their
 * nodes.
 */
export const WEBHOOK_NODES = `${WEBHOOK_PREFIX}nodes`;
/**
 * Set: nodes whose peers are still to be removed. Writers: gateways, when they end or take another name; usage workers.
 * Expiry: members when their peers were removed.
 */
export const WEBHOOK_DEAD_NODES = `${WEBHOOK_PREFIX}dead`;
/**
 * Hash: node that has ended → time for which it keeps the places of its peers, ms. Writers: gateways, when they end. Expiry:
 * fields when the peers of the node were removed.
 */
export const WEBHOOK_DEPARTED_NODES = `${WEBHOOK_PREFIX}departed`;
/**
 * Hash: account\nroom\npeer → kind, for the peers that the node holds. Writers: gateways; usage workers, when the node is
 * dead. Expiry: with the last peer.
 */
export const webhookNodeKey = (node: string) => `${WEBHOOK_PREFIX}node:${node}`;
/**
 * Hash: node → number of its last change. Writers: gateways; usage workers, when the node is dead. Expiry: fields after the
 * peers of a dead node were removed.
 */
export const WEBHOOK_CHANGE_NUMBERS = `${WEBHOOK_PREFIX}numbers`;
/**
 * Hash: node → time of its last report, ms by Redis's clock. Writers: gateways; usage workers, when the node is dead.
 * Expiry: fields after the peers of a dead node were removed.
 */
export const WEBHOOK_REPORT_TIMES = `${WEBHOOK_PREFIX}seen`;
/**
 * Hash: peer → number of nodes that hold it. Writers: gateways; usage workers, when the node is dead. Expiry: fields when
 * the peer left all nodes.
 */
export const webhookPeersKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}peers:${accountId}\n${room}`;
/**
 * Hash: peer → node to which it came last. Writers: gateways; usage workers, when the node is dead. Expiry: fields when the
 * peer left all nodes.
 */
export const webhookLatestNodesKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}latest:${accountId}\n${room}`;
/**
 * Hash: peer → its event when it left that node, while another still holds it; the next join of the peer tells it. Writers:
 * gateways; usage workers, when the node is dead. Expiry: fields when the peer joins again or left all nodes.
 */
export const webhookLeftPeersKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}left:${accountId}\n${room}`;
/**
 * String: `created_at` of the latest `peer_left`, while the room has other peers. Writers: gateways; usage workers, when
 * the node is dead. Expiry: when the room ends.
 */
export const webhookLastLeftKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}last_left:${accountId}\n${room}`;
/**
 * String: the event of this name was sent, and is not sent again. Writers: gateways. Expiry: a day after the event can come
 * no more.
 */
export const webhookOnceKey = (event: string) => `${WEBHOOK_PREFIX}once:${event}`;
/**
 * List: waiting events as JSON, the oldest first. Writers: gateways; usage workers, which remove them. Expiry: with its
 * events: sent, or given up after `WEBHOOK_KEEP_HOURS`.
 */
export const webhookOutboxKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}outbox:${accountId}\n${room}`;
/**
 * Set: account\nroom with waiting events of earlier versions. Writers: nodes of earlier versions; usage workers, which take
 * them over. Expiry: members when they were taken over.
 */
export const WEBHOOK_EARLIER_OUTBOXES = `${WEBHOOK_PREFIX}waiting`;
/**
 * Sorted set: rooms with waiting events, by `created_at` of the first one. Writers: gateways; usage workers. Expiry:
 * members with their events.
 */
export const webhookRoomsKey = (accountId: number) => `${WEBHOOK_PREFIX}rooms:${accountId}`;
/**
 * Sorted set: accounts with waiting events, by `created_at` of the oldest one. Writers: gateways; usage workers. Expiry:
 * members with their events.
 */
export const WEBHOOK_ACCOUNTS = `${WEBHOOK_PREFIX}accounts`;
/** Hash: account → number of waiting events. Writers: gateways; usage workers. Expiry: fields with their events. */
export const WEBHOOK_COUNTS = `${WEBHOOK_PREFIX}counts`;
/** String: number of events given up. Writers: gateways; usage workers. Expiry: never. */
export const WEBHOOK_DROPPED = `${WEBHOOK_PREFIX}dropped`;
/** Hash: account → number of its events given up. Writers: gateways; usage workers. Expiry: never. */
export const WEBHOOK_DROPPED_BY_ACCOUNT = `${WEBHOOK_PREFIX}dropped_of`;
/** Hash: usage worker → count of its heartbeats. Writers: usage workers. Expiry: fields with their workers. */
export const WEBHOOK_WORKERS = `${WEBHOOK_PREFIX}workers`;
/**
 * Hash: account → usage worker that sends its events. Writers: usage workers. Expiry: fields when nothing waits, or with
 * their workers.
 */
export const WEBHOOK_HOLDERS = `${WEBHOOK_PREFIX}holders`;
/** Channel: id of an account with events that wait. */
export const WEBHOOK_NEWS = `${WEBHOOK_PREFIX}news`;
