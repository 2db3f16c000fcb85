--[[
Writes the heartbeat of a node.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
KEYS[2]  set: hashes in which the node has a field, and the mark of KEYS[3]
KEYS[3]  mark that the node is known
ARGV[1]  node
ARGV[2]  'join' to set the mark
Returns { 1 if the node has the mark, 0 if it was removed since it set the mark; all nodes, each followed by its heartbeat }.
]]
-- @include now
redis.call('ZADD', KEYS[1], now, ARGV[1])
if ARGV[2] == 'join' then redis.call('SADD', KEYS[2], KEYS[3]) end
return { redis.call('SISMEMBER', KEYS[2], KEYS[3]), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') }
