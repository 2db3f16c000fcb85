--[[
Writes the last heartbeat of a node, which may lie ahead: what the node left in Redis lasts until others find it dead.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
ARGV[1]  node
ARGV[2]  by how much the heartbeat lies ahead, ms
Returns nothing.
]]
-- @include now
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
