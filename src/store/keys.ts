/**
 * Every key and channel of the gateway in Redis (docs/redis.md). Libraries add their own under a prefix: BullMQ under
 * `bullmq`, rate-limiter-flexible under `limit:`.
 */

/** Prefix of all keys and channels. */
export const KEY_PREFIX = 'partyline:';

/** Key that never exists: a conditional write to it changes nothing, and Redis refuses it whenever it refuses writes. */
export const WRITE_CHECK = `${KEY_PREFIX}write_check`;

// Accounts

/** Prefix of accounts. */
export const ACCOUNT_PREFIX = `${KEY_PREFIX}account:`;
/** Hash: the fields of an account. */
export const accountKey = (id: number) => `${ACCOUNT_PREFIX}${id}`;
/** Set: hashes of the API keys of an account. */
export const apiKeyHashesKey = (id: number) => `${ACCOUNT_PREFIX}${id}:keys`;
/** String: the secret that signs webhooks of an account. */
export const webhookSecretKey = (id: number) => `${ACCOUNT_PREFIX}${id}:webhook_secret`;
/** String: the last account id that was given. */
export const LAST_ACCOUNT_ID = `${ACCOUNT_PREFIX}last_id`;
/** Hash: where and when {@link LAST_ACCOUNT_ID} was given: `run` of the server, identity of the `file`, `at` in seconds. */
export const LAST_ACCOUNT_ID_GIVEN = `${ACCOUNT_PREFIX}last_id:given`;
/** Hash: `account`, `created_at` and `last_used_at` of the API key with a SHA-256. */
export const apiKeyRecordKey = (hash: string) => `${KEY_PREFIX}key:${hash}`;
/** Set: ids of all accounts. */
export const ALL_ACCOUNTS = `${KEY_PREFIX}accounts`;
/** Set: ids of the accounts that have a webhook. */
export const ACCOUNTS_WITH_WEBHOOK = `${KEY_PREFIX}accounts:with_webhook`;
/** Channel: id of each account that has changed, or lost a key. */
export const ACCOUNT_CHANGES = `${KEY_PREFIX}account_changes`;
/** String: id of the demo account. */
export const DEMO_ACCOUNT_ID = `${KEY_PREFIX}demo_account`;
/** Set: ids of the API keys that starts have made for the demo account. */
export const DEMO_ACCOUNT_KEYS = `${KEY_PREFIX}demo_account:keys`;
/** String: the gateway that is creating the demo account or a key of it; expires after 5 s. */
export const DEMO_ACCOUNT_TURN = `${KEY_PREFIX}demo_account:turn`;
/** List: keys that sign tokens, the newest first. */
export const SIGNING_KEYS = `${KEY_PREFIX}token_keys`;
/** Set: ids of withdrawn signing keys. */
export const WITHDRAWN_SIGNING_KEYS = `${KEY_PREFIX}token_keys:withdrawn`;
/** Set: ids of signing keys that are not kept any more and were not withdrawn: connections that these keys admitted may still be open. */
export const FORMER_SIGNING_KEYS = `${KEY_PREFIX}token_keys:former`;
/** Channel: the signing keys have changed. */
export const SIGNING_KEY_CHANGES = `${KEY_PREFIX}token_key_changes`;
/** Prefix of a rate limiter's counters. */
export const limitPrefix = (name: string) => `${KEY_PREFIX}limit:${name}`;

// Connections

/** Sorted set: peers of an account by the expiry of their leases, ms by Redis's clock. */
export const leaseExpiriesKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}`;
/** Hash: peer → its place. */
export const leasePlacesKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}:places`;
/**
 * Keys of an account's leases: {@link leaseExpiriesKey}, and hashes by peer: connection, place, session with its settings, and
 * connection with its order.
 */
export const leaseKeys = (accountId: number) => [
  leaseExpiriesKey(accountId),
  `${KEY_PREFIX}ccu:${accountId}:holders`,
  leasePlacesKey(accountId),
  `${KEY_PREFIX}ccu:${accountId}:settings`,
  `${KEY_PREFIX}ccu:${accountId}:orders`,
];
/** String: session and settings of a peer whose connection was lost in the lobby. */
export const resumeKey = (accountId: number, peer: string) =>
  `${KEY_PREFIX}resume:${accountId}:${peer}`;
/** String: order of the account's last lease. */
export const leaseOrderKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}:order`;

// Nodes

/** Sorted set: nodes by the time of their last heartbeat, ms by Redis's clock. */
export const NODES = `${KEY_PREFIX}nodes`;
/** Set: keys of the hashes in which a node has a field, to be removed when it is dead, and its {@link nodeMark}. */
export const ownedKeysKey = (node: string) => `${KEY_PREFIX}node:${node}:traces`;
/** Member of {@link ownedKeysKey} until the node is removed; there is no such key. */
export const nodeMark = (node: string) => `${KEY_PREFIX}node:${node}:known`;
/** String: the node left in order. */
export const departedKey = (node: string) => `${KEY_PREFIX}node:${node}:departed`;
/** Hash: node → fingerprint of its CLUSTER_KEY. */
export const KEY_FINGERPRINTS = `${KEY_PREFIX}node_key_fingerprints`;
/** Hash: node → format and version of its state and messages. */
export const NODE_FORMATS = `${KEY_PREFIX}node_formats`;
/** Hash: `format` and `version` of the state, and the format from which processes can read it (`readable_from`). */
export const STATE_FORMAT = `${KEY_PREFIX}format`;
/** String: the cluster key of nodes without CLUSTER_KEY. */
export const SHARED_CLUSTER_KEY = `${KEY_PREFIX}cluster_key`;
/** Channel: messages of a node to all nodes. */
export const BUS_CHANNEL = `${KEY_PREFIX}bus`;
/** Channel: messages of other nodes to one node. */
export const nodeBusChannel = (node: string) => `${BUS_CHANNEL}:${node}`;
/** Prefix of rooms. */
const ROOM_PREFIX = `${KEY_PREFIX}room:`;
/** Hash, and channel of its changes: node → its sealed state of a room. */
export const roomStateKey = (accountId: number, room: string) =>
  `${ROOM_PREFIX}${accountId}:${room}`;
const ROOM_STATE_KEY = new RegExp(`^${ROOM_PREFIX}(\\d+):`);
/** Returns the account in a {@link roomStateKey}; undefined for any other key. */
export function accountOfRoomStateKey(key: string): number | undefined {
  const id = ROOM_STATE_KEY.exec(key)?.[1];
  return id === undefined ? undefined : Number(id);
}

// Usage. Minutes are named `2026-11-21T08:13`, days `2026-11-21`; scripts get the prefix, and put
// the same names together.

/** Prefix of usage. */
export const USAGE_PREFIX = `${KEY_PREFIX}usage:`;
/** Sorted set: `account|minute` of all minutes that wait to be closed, by the minute's number since 1970. */
export const OPEN_MINUTES = `${USAGE_PREFIX}open`;
/** Set: minutes of an account that wait to be closed. */
export const openMinutesKey = (accountId: number) => `${OPEN_MINUTES}:${accountId}`;
/**
 * Hash: `process|room` → `websocketMs:webrtcMs:peak`, and `=` → the peer-ms that the month has of the minute. It expires only
 * after the minute was closed.
 */
export const minuteKey = (accountId: number, minute: string) =>
  `${OPEN_MINUTES}:${accountId}:${minute}`;
/** Hash: month → peer-ms of an account. */
export const monthsKey = (accountId: number) => `${USAGE_PREFIX}months:${accountId}`;
/** Hash: `HH:MM|room` → `websocketMs:webrtcMs:peak`, for the closed minutes of a day. */
export const minuteRecordsKey = (accountId: number, day: string) =>
  `${USAGE_PREFIX}records:${accountId}:${day}`;
/** Hash: `HH|room` → `websocketMs:webrtcMs:peak`, and `=` if the whole day is in it (older days have minutes only). */
export const hourRecordsKey = (accountId: number, day: string) =>
  `${USAGE_PREFIX}hours:${accountId}:${day}`;
/** Sorted set: usage workers by their last sign of life. */
export const USAGE_WORKERS = `${USAGE_PREFIX}workers`;
/** Hash: usage worker → how far its clock is ahead of Redis's, ms. */
export const USAGE_WORKER_OFFSETS = `${USAGE_PREFIX}worker_offsets`;
/** Prefix of BullMQ's queues. */
export const BULLMQ_PREFIX = `${KEY_PREFIX}bullmq`;
/** List: jobs of a BullMQ queue that wait for a worker. */
export const waitingJobsKey = (queue: string) => `${BULLMQ_PREFIX}:${queue}:wait`;

// Webhooks. Room names have no line breaks; scripts get the prefix, and put the same names
// together.

/** Prefix of webhooks. */
export const WEBHOOK_PREFIX = `${KEY_PREFIX}webhooks:`;
/** Hash: node → count of its heartbeats. */
export const WEBHOOK_NODES = `${WEBHOOK_PREFIX}nodes`;
/** Set: nodes whose peers are still to be removed. */
export const WEBHOOK_DEAD_NODES = `${WEBHOOK_PREFIX}dead`;
/** Hash: `account\nroom\npeer` → kind, for the peers that a node holds. */
export const webhookNodeKey = (node: string) => `${WEBHOOK_PREFIX}node:${node}`;
/** Hash: node → number of its last change. */
export const WEBHOOK_CHANGE_NUMBERS = `${WEBHOOK_PREFIX}numbers`;
/** Hash: node → time of its last report, ms by Redis's clock. */
export const WEBHOOK_REPORT_TIMES = `${WEBHOOK_PREFIX}seen`;
/** Hash: peer of a room → number of nodes that hold it. */
export const webhookPeersKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}peers:${accountId}\n${room}`;
/** Hash: peer of a room → the node to which it came last. */
export const webhookLatestNodesKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}latest:${accountId}\n${room}`;
/** Hash: peer of a room → its event when it left that node, while another still holds it. */
export const webhookLeftPeersKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}left:${accountId}\n${room}`;
/** String: `created_at` of the latest `peer_left` of a room that still has peers. */
export const webhookLastLeftKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}last_left:${accountId}\n${room}`;
/** String: exists if the event of this name was sent, which is sent only once. */
export const webhookOnceKey = (event: string) => `${WEBHOOK_PREFIX}once:${event}`;
/** List: waiting events of a room as JSON, the oldest first. */
export const webhookOutboxKey = (accountId: number, room: string) =>
  `${WEBHOOK_PREFIX}outbox:${accountId}\n${room}`;
/** Set: `account\nroom` with waiting events that nodes of earlier versions have written. */
export const WEBHOOK_EARLIER_OUTBOXES = `${WEBHOOK_PREFIX}waiting`;
/** Sorted set: rooms of an account with waiting events, by `created_at` of the first one. */
export const webhookRoomsKey = (accountId: number) => `${WEBHOOK_PREFIX}rooms:${accountId}`;
/** Sorted set: accounts with waiting events, by `created_at` of the oldest one. */
export const WEBHOOK_ACCOUNTS = `${WEBHOOK_PREFIX}accounts`;
/** Hash: account → number of its waiting events. */
export const WEBHOOK_COUNTS = `${WEBHOOK_PREFIX}counts`;
/** String: number of events given up. */
export const WEBHOOK_DROPPED = `${WEBHOOK_PREFIX}dropped`;
/** Hash: account → number of its events given up. */
export const WEBHOOK_DROPPED_BY_ACCOUNT = `${WEBHOOK_PREFIX}dropped_of`;
/** Hash: usage worker → count of its heartbeats. */
export const WEBHOOK_WORKERS = `${WEBHOOK_PREFIX}workers`;
/** Hash: account → the usage worker that sends its events. */
export const WEBHOOK_HOLDERS = `${WEBHOOK_PREFIX}holders`;
/** Channel: id of an account with waiting events. */
export const WEBHOOK_NEWS = `${WEBHOOK_PREFIX}news`;
