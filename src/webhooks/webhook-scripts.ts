/**
 * The scripts of the webhook stores. KEYS[1] is the prefix of all keys of webhooks; the keys themselves are described at
 * {@link WebhookStore}. Events are JSON, and ordered by their `created_at`, as a number of its digits without the century.
 */

/** Maximum number of events of one room that wait. */
const MAX_WAITING_OF_ROOM = 1000;
/** Maximum number of events that are given up for their age in one run. */
const GIVEN_UP_AT_ONCE = 1000;

const YEAR_2000_MS = Date.UTC(2000, 0);

/** `order` of an event that was created at a moment, ms since 1970. */
export const orderAt = (ms: number) =>
  Number(new Date(Math.max(ms, YEAR_2000_MS)).toISOString().replaceAll(/\D/g, '').slice(2));

/** The moment of an `order`, ms since 1970. */
export function momentOf(order: number): number {
  const digits = String(order).padStart(15, '0');
  const [, ...parts] = /^(..)(..)(..)(..)(..)(..)(...)$/.exec(digits) ?? [];
  const [year = 0, month = 1, day = 1, ...time] = parts.map(Number);
  return Date.UTC(2000 + year, month - 1, day, ...(time as [number, number, number, number]));
}

/** Functions on the outboxes of accounts. */
const OUTBOX = `
local prefix = KEYS[1]
local function outboxOf(account, room) return prefix .. 'outbox:' .. account .. '\\n' .. room end
local function orderOf(event)
  local found = { string.match(event, '"created_at":"%d%d(%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d)%.(%d%d%d)Z"') }
  return #found == 7 and table.concat(found) or '0'
end
-- The first event of a room has changed.
local function settle(account, room)
  local rooms = prefix .. 'rooms:' .. account
  local head = redis.call('LINDEX', outboxOf(account, room), 0)
  if head then redis.call('ZADD', rooms, orderOf(head), room) else redis.call('ZREM', rooms, room) end
  local oldest = redis.call('ZRANGE', rooms, 0, 0, 'WITHSCORES')
  if oldest[2] then
    redis.call('ZADD', prefix .. 'accounts', oldest[2], account)
  else
    redis.call('ZREM', prefix .. 'accounts', account)
    redis.call('HDEL', prefix .. 'counts', account)
  end
end
local function takeFirst(account, room)
  redis.call('LPOP', outboxOf(account, room))
  redis.call('HINCRBY', prefix .. 'counts', account, -1)
  settle(account, room)
end
local function giveUp(account, room)
  takeFirst(account, room)
  redis.call('HINCRBY', prefix .. 'dropped_of', account, 1)
  redis.call('INCR', prefix .. 'dropped')
end
local function push(account, room, event, maxWaiting)
  local waiting = redis.call('HINCRBY', prefix .. 'counts', account, 1)
  local inRoom = redis.call('RPUSH', outboxOf(account, room), event)
  if inRoom == 1 then settle(account, room) end
  if inRoom > ${MAX_WAITING_OF_ROOM} then
    giveUp(account, room)
  elseif waiting > maxWaiting then
    giveUp(account, redis.call('ZRANGE', prefix .. 'rooms:' .. account, 0, 0)[1])
  end
  redis.call('PUBLISH', prefix .. 'news', account)
end
`;

/**
 * ARGV: node, JSON of changes (number, or 0 if telling it again does no harm; what to do; place; then peer, kind, event of the
 * peer, event of the room; or key, expiry in ms, event), how many were dropped before them, 1 if the node is dead, how many
 * events of an account may wait. Returns 0 if the node is not known.
 */
export const TELL = `
${OUTBOX}
local isDead, maxWaiting = ARGV[4] == '1', tonumber(ARGV[5])
local node = prefix .. 'node:' .. ARGV[1]
if not isDead and redis.call('HEXISTS', prefix .. 'nodes', ARGV[1]) == 0 then return 0 end
local function createdAtOf(event) return string.match(event, '"created_at":"([^"]*)"') end
local function tell(place, event)
  local account, room = string.match(place, '^(%d+)\\n(.*)$')
  push(account, room, event, maxWaiting)
end
local function join(place, peer, kind, peerEvent, roomEvent)
  if redis.call('HSETNX', node, place .. '\\n' .. peer, kind) == 0 then return end
  local peers = prefix .. 'peers:' .. place
  redis.call('HDEL', prefix .. 'left:' .. place, peer)
  redis.call('HSET', prefix .. 'latest:' .. place, peer, ARGV[1])
  if redis.call('EXISTS', peers) == 0 then tell(place, roomEvent) end
  if redis.call('HINCRBY', peers, peer, 1) == 1 then tell(place, peerEvent) end
end
local function leave(place, peer, kind, peerEvent, roomEvent)
  if redis.call('HDEL', node, place .. '\\n' .. peer) == 0 then return end
  local peers, left, latest = prefix .. 'peers:' .. place, prefix .. 'left:' .. place, prefix .. 'latest:' .. place
  if redis.call('HINCRBY', peers, peer, -1) > 0 then
    -- It went from the node to which it came last: another still holds it, and may be dead without anybody having noticed.
    if redis.call('HGET', latest, peer) == ARGV[1] then redis.call('HSET', left, peer, peerEvent) end
    return
  end
  local earlier = redis.call('HGET', left, peer)
  for _, key in ipairs({ peers, left, latest }) do redis.call('HDEL', key, peer) end
  if isDead and earlier then peerEvent = earlier end
  tell(place, peerEvent)
  -- The last to be told of is not always the last who left: the room ended with that one.
  local lastLeft = prefix .. 'last_left:' .. place
  local leftAt, lastLeftAt = createdAtOf(peerEvent), redis.call('GET', lastLeft)
  if lastLeftAt and lastLeftAt > leftAt then leftAt = lastLeftAt end
  if redis.call('EXISTS', peers) == 1 then
    redis.call('SET', lastLeft, leftAt)
  else
    redis.call('DEL', lastLeft)
    tell(place, (string.gsub(roomEvent, '"created_at":"[^"]*"', '"created_at":"' .. leftAt .. '"', 1)))
  end
end
local function once(place, key, keptUntilMs, event)
  if redis.call('SET', prefix .. 'once:' .. key, '1', 'NX', 'PXAT', keptUntilMs) then tell(place, event) end
end
local operations = { join = join, leave = leave, once = once }
local last = tonumber(redis.call('HGET', prefix .. 'numbers', ARGV[1]) or '0')
for _, change in ipairs(cjson.decode(ARGV[2])) do
  if change[1] == 0 or change[1] > last then operations[change[2]](unpack(change, 3)) end
  last = math.max(last, change[1])
end
redis.call('HSET', prefix .. 'numbers', ARGV[1], last)
if not isDead then
  local time = redis.call('TIME')
  redis.call('HINCRBY', prefix .. 'nodes', ARGV[1], 1)
  redis.call('HSET', prefix .. 'seen', ARGV[1], time[1] * 1000 + math.floor(time[2] / 1000))
end
if ARGV[3] ~= '0' then redis.call('INCRBY', prefix .. 'dropped', ARGV[3]) end
return 1
`;

/** ARGV: node, how often it had shown that it lives; if it has done so since, it is not buried. */
export const REAP = `
if redis.call('HGET', KEYS[1] .. 'nodes', ARGV[1]) ~= ARGV[2] then return end
redis.call('HDEL', KEYS[1] .. 'nodes', ARGV[1])
redis.call('SADD', KEYS[1] .. 'dead', ARGV[1])
`;

/** ARGV: account, room, the event that is done with, 1 if it was given up. Returns whether it was the first. */
export const REMOVE = `
${OUTBOX}
if redis.call('LINDEX', outboxOf(ARGV[1], ARGV[2]), 0) ~= ARGV[3] then return 0 end
if ARGV[4] == '1' then giveUp(ARGV[1], ARGV[2]) else takeFirst(ARGV[1], ARGV[2]) end
return 1
`;

/** Forgets what waits for an account that has no webhook. ARGV: account. */
export const CLEAR = `
${OUTBOX}
for _, room in ipairs(redis.call('ZRANGE', prefix .. 'rooms:' .. ARGV[1], 0, -1)) do
  redis.call('DEL', outboxOf(ARGV[1], room))
end
redis.call('DEL', prefix .. 'rooms:' .. ARGV[1])
redis.call('ZREM', prefix .. 'accounts', ARGV[1])
redis.call('HDEL', prefix .. 'counts', ARGV[1])
`;

/**
 * Gives up what is older than an order, then returns the rooms whose first events are the oldest, each with that event.
 * ARGV: account, order, how many rooms.
 */
export const HEADS = `
${OUTBOX}
local rooms, given = prefix .. 'rooms:' .. ARGV[1], 0
while given < ${GIVEN_UP_AT_ONCE} do
  local old = redis.call('ZRANGEBYSCORE', rooms, '-inf', '(' .. ARGV[2], 'LIMIT', 0, 1)
  if #old == 0 then break end
  giveUp(ARGV[1], old[1])
  given = given + 1
end
local heads = { given }
if tonumber(ARGV[3]) > 0 then
  for _, room in ipairs(redis.call('ZRANGE', rooms, 0, ARGV[3] - 1)) do
    heads[#heads + 1] = room
    heads[#heads + 1] = redis.call('LINDEX', outboxOf(ARGV[1], room), 0)
  end
end
return heads
`;

/** Takes over what nodes of earlier versions have told, who name places with events in one set. */
export const ADOPT = `
${OUTBOX}
for _, place in ipairs(redis.call('SPOP', prefix .. 'waiting', 1000)) do
  local account, room = string.match(place, '^(%d+)\\n(.*)$')
  local waiting = redis.call('LLEN', outboxOf(account, room))
  if waiting > 0 and not redis.call('ZSCORE', prefix .. 'rooms:' .. account, room) then
    redis.call('HINCRBY', prefix .. 'counts', account, waiting)
    settle(account, room)
  end
end
`;

/** Returns how many rooms and events wait, the order of the oldest event, and how many were given up. */
export const COUNT = `
local rooms, events = 0, 0
for _, account in ipairs(redis.call('ZRANGE', KEYS[1] .. 'accounts', 0, -1)) do
  rooms = rooms + redis.call('ZCARD', KEYS[1] .. 'rooms:' .. account)
end
for _, waiting in ipairs(redis.call('HVALS', KEYS[1] .. 'counts')) do events = events + waiting end
local oldest = redis.call('ZRANGE', KEYS[1] .. 'accounts', 0, 0, 'WITHSCORES')
return { rooms, events, oldest[2] or '', redis.call('GET', KEYS[1] .. 'dropped') or '0' }
`;

/**
 * Deals accounts out to workers. ARGV: worker, how many accounts it may have, then workers that are dead. Each takes its share
 * of those that nobody has. Returns the accounts that are the worker's, and the workers with how often each has done this.
 */
export const SHARE = `
local prefix, worker = KEYS[1], ARGV[1]
for i = 3, #ARGV do redis.call('HDEL', prefix .. 'workers', ARGV[i]) end
redis.call('HINCRBY', prefix .. 'workers', worker, 1)
local holders, mine = prefix .. 'holders', {}
local held = redis.call('HGETALL', holders)
for i = 1, #held, 2 do
  if redis.call('HEXISTS', prefix .. 'workers', held[i + 1]) == 0 then
    redis.call('HDEL', holders, held[i])
  elseif held[i + 1] == worker then
    mine[#mine + 1] = held[i]
  end
end
local accounts = redis.call('ZRANGE', prefix .. 'accounts', 0, -1)
local share = math.min(tonumber(ARGV[2]), math.ceil(#accounts / redis.call('HLEN', prefix .. 'workers')))
for _, account in ipairs(accounts) do
  if #mine >= share then break end
  if redis.call('HSETNX', holders, account, worker) == 1 then mine[#mine + 1] = account end
end
return { mine, redis.call('HGETALL', prefix .. 'workers') }
`;

/** Takes an account, if it has events and nobody has it. ARGV: worker, account. Returns whether it is the worker's. */
export const CLAIM = `
if not redis.call('ZSCORE', KEYS[1] .. 'accounts', ARGV[2]) then return 0 end
if redis.call('HEXISTS', KEYS[1] .. 'workers', ARGV[1]) == 0 then return 0 end
return redis.call('HSETNX', KEYS[1] .. 'holders', ARGV[2], ARGV[1])
`;

/** Gives an account back, if it has no events. ARGV: worker, account. Returns 0 if it has some, and is the worker's. */
export const RELEASE = `
local holders = KEYS[1] .. 'holders'
if redis.call('HGET', holders, ARGV[2]) ~= ARGV[1] then return 1 end
if redis.call('ZSCORE', KEYS[1] .. 'accounts', ARGV[2]) then return 0 end
redis.call('HDEL', holders, ARGV[2])
return 1
`;

/** A worker ends. ARGV: worker. */
export const RETIRE_WORKER = `
redis.call('HDEL', KEYS[1] .. 'workers', ARGV[1])
local held = redis.call('HGETALL', KEYS[1] .. 'holders')
for i = 1, #held, 2 do
  if held[i + 1] == ARGV[1] then redis.call('HDEL', KEYS[1] .. 'holders', held[i]) end
end
`;
