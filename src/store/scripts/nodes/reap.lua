--[[
Removes a dead node, with all that it has in Redis, unless it has shown since that it lives.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
KEYS[2]  set: hashes in which the node has a field
ARGV[1]  node
ARGV[2]  the heartbeat with which it was found dead
Returns 1 if it was removed, otherwise 0.
]]
local heartbeat = redis.call('ZSCORE', KEYS[1], ARGV[1])
if heartbeat and heartbeat ~= ARGV[2] then return 0 end
-- @include forget-node
return 1
