/**
 * The scripts of {@link CcuLeases}. A lease belongs to a peer, and is held by the connection that took it last: a peer that
 * connects again, on any node, takes its own lease over. KEYS[1] is a sorted set: peer → expiry in ms by Redis's own clock, which
 * all nodes share; KEYS[2] a hash: peer → connection; KEYS[3] a hash: peer → its place, for when it comes back on another node;
 * KEYS[4] a hash: peer → its session and settings, separated by a space. KEYS[5], where it is given, is a string that holds the
 * same for a while after a client in the lobby has lost its connection, and with it its lease; KEYS[6] is the order of the
 * account's last lease.
 */

/**
 * Evicts what has expired, then admits or refuses. ARGV: peer, connection, limit, lease in ms, whether another connection of
 * the peer is newer, session, settings of a new session; and of a half of a peer, its place, the beginning of the ids of sessions
 * that it joins, and of those among them that it replaces (all ids: it joins none). Returns { 1, or 0 if the limit is reached, or
 * -1 if there is a newer one, or -2 if there is a session to join in the same room; leases held; place of the peer on a connection
 * that it had before; 1 if the session is known, 0 if it is new; its settings; the order of the lease, higher than that of every
 * one before it }.
 */
export const ADMIT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, peer in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('HDEL', KEYS[2], peer)
  redis.call('HDEL', KEYS[3], peer)
  redis.call('HDEL', KEYS[4], peer)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local held = redis.call('ZCARD', KEYS[1])
local holder = redis.call('HGET', KEYS[2], ARGV[1])
if ARGV[5] == '1' and holder and holder ~= ARGV[2] then return { -1, held, false } end
local place = redis.call('HGET', KEYS[3], ARGV[1])
if place and ARGV[8] ~= '' then
  local there, own = cjson.decode(place), cjson.decode(ARGV[8])
  local function begins(with) return string.sub(there.sessionId, 1, #with) == with end
  if there.room == own.room and begins(ARGV[9]) and not begins(ARGV[10]) then return { -2, held, place } end
end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if held >= tonumber(ARGV[3]) then return { 0, held, false } end
  held = held + 1
end
redis.call('ZADD', KEYS[1], now + ARGV[4], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
-- By the clock, so that it goes on rising when this key was lost.
local order = math.max(time[1] * 1000000 + time[2], (tonumber(redis.call('GET', KEYS[6])) or 0) + 1)
redis.call('SET', KEYS[6], string.format('%.0f', order))
local prefix = ARGV[6] .. ' '
local stored = redis.call('HGET', KEYS[4], ARGV[1]) or redis.call('GET', KEYS[5]) or ''
local known = string.sub(stored, 1, #prefix) == prefix
if not known then stored = prefix .. ARGV[7] end
redis.call('HSET', KEYS[4], ARGV[1], stored)
redis.call('DEL', KEYS[5])
if ARGV[8] ~= '' then redis.call('HSET', KEYS[3], ARGV[1], ARGV[8]) end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 2 * ARGV[4]) end
return { 1, held, place, known and 1 or 0, string.sub(stored, #prefix + 1), order }
`;

/**
 * Puts off the expiry, also of leases that were lost, but not of those that another connection took, which are returned.
 * ARGV: lease in ms, then peer, connection…
 */
export const RENEW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local peers, leases, holders, taken = {}, {}, {}, {}
for i = 2, #ARGV, 2 do peers[#peers + 1] = ARGV[i] end
local held = redis.call('HMGET', KEYS[2], unpack(peers))
for i, peer in ipairs(peers) do
  local session = ARGV[2 * i + 1]
  if not held[i] or held[i] == session then
    leases[#leases + 1] = now + ARGV[1]
    leases[#leases + 1] = peer
    holders[#holders + 1] = peer
    holders[#holders + 1] = session
  else
    taken[#taken + 1] = session
  end
end
if #leases > 0 then
  redis.call('ZADD', KEYS[1], unpack(leases))
  redis.call('HSET', KEYS[2], unpack(holders))
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 2 * ARGV[1]) end
return taken
`;

/** Notes the place of a peer. ARGV: peer, connection, place; empty if in no room. */
export const PLACE = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return end
if ARGV[3] == '' then redis.call('HDEL', KEYS[3], ARGV[1]) else redis.call('HSET', KEYS[3], ARGV[1], ARGV[3]) end
`;

/** Notes the session and settings of a peer. ARGV: peer, connection, session and settings. */
export const SAVE = `
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then redis.call('HSET', KEYS[4], ARGV[1], ARGV[3]) end
`;

/** Gives a lease back. ARGV: peer, connection, duration for which its settings are kept, ms. */
export const RELEASE = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return end
local settings = redis.call('HGET', KEYS[4], ARGV[1])
if settings and tonumber(ARGV[3]) > 0 then redis.call('SET', KEYS[5], settings, 'PX', ARGV[3]) end
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
`;

/** Lets leases that are still held expire. ARGV: ms until then, then peer, connection… */
export const LEAVE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
  end
end
`;

/** Counts the leases that have not expired. */
export const COUNT = `
local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], '(' .. (time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')
`;
