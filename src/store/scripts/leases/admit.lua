--[[
Evicts the leases of an account that have expired, then gives a connection a lease for its peer, or refuses it. A lease belongs to
a peer, and is held by the connection that took it last: a peer that connects again, on any node, takes its own lease over.

KEYS[1]  sorted set: peer → expiry of its lease, ms by Redis's clock
KEYS[2]  hash: peer → connection that holds its lease
KEYS[3]  hash: peer → its place, for when it comes back on another node
KEYS[4]  hash: peer → its session and settings, separated by a space
KEYS[5]  hash: peer → connection that holds its lease, and the order of the lease, separated by a space
KEYS[6]  string: the same of a client that lost its connection in the lobby, and with it its lease
KEYS[7]  string: order of the account's last lease
ARGV[1]  peer
ARGV[2]  connection
ARGV[3]  maximum number of leases
ARGV[4]  duration of a lease, ms
ARGV[5]  1 if another connection of the peer, should it have one, is newer
ARGV[6]  session
ARGV[7]  settings of a new session
ARGV[8]  place of a half of a peer; empty for a whole one
ARGV[9]  beginning of the ids of the sessions that the half joins
ARGV[10] beginning of the ids of those among them that it replaces; if that of all ids, it joins none
Returns { 1, or 0 if the limit is reached, -1 if there is a newer connection, -2 if there is a session to join in the same room;
leases held; place of the peer on a connection that it had before; 1 if the session is known, 0 if it is new; its settings; order
of the lease, higher than that of every one before it }.
]]
-- @include now
-- @include expire-at-least
-- Changes nothing. Redis lets a script go on that has written something: one that is full must refuse before anything is removed.
redis.call('SETRANGE', KEYS[7], 0, '')
for _, peer in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('HDEL', KEYS[2], peer)
  redis.call('HDEL', KEYS[3], peer)
  redis.call('HDEL', KEYS[4], peer)
  redis.call('HDEL', KEYS[5], peer)
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
local order = math.max(time[1] * 1000000 + time[2], (tonumber(redis.call('GET', KEYS[7])) or 0) + 1)
local orderText = string.format('%.0f', order)
redis.call('SET', KEYS[7], orderText)
redis.call('HSET', KEYS[5], ARGV[1], ARGV[2] .. ' ' .. orderText)
local prefix = ARGV[6] .. ' '
local stored = redis.call('HGET', KEYS[4], ARGV[1]) or redis.call('GET', KEYS[6]) or ''
local known = string.sub(stored, 1, #prefix) == prefix
if not known then stored = prefix .. ARGV[7] end
redis.call('HSET', KEYS[4], ARGV[1], stored)
redis.call('DEL', KEYS[6])
if ARGV[8] ~= '' then redis.call('HSET', KEYS[3], ARGV[1], ARGV[8]) end
expireAtLeast(KEYS, 2 * ARGV[4])
return { 1, held, place, known and 1 or 0, string.sub(stored, #prefix + 1), order }
