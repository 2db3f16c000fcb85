--[[
Writes the heartbeat of a node.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
ARGV[1]  node
Returns { 1 if the node was not known, otherwise 0; all nodes, each followed by its heartbeat }.
]]
-- @include now
local isNew = redis.call('ZADD', KEYS[1], now, ARGV[1])
return { isNew, redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') }
