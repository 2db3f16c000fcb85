--[[
Removes a dead node, with all that it has in Redis, unless it has shown since that it lives.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
KEYS[2]  set: hashes in which the node has a field
KEYS[3]  string: there if the node left in order
ARGV[1]  node
ARGV[2]  the heartbeat with which it was found dead
Returns 0 if it was not removed, 1 if it was, and 2 if it had left in order.
]]
local heartbeat = redis.call('ZSCORE', KEYS[1], ARGV[1])
if heartbeat and heartbeat ~= ARGV[2] then return 0 end
-- @include forget-node
return 1 + redis.call('EXISTS', KEYS[3])
