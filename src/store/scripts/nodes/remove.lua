--[[
Removes a node that goes, with all that it has in Redis.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
KEYS[2]  set: hashes in which the node has a field
ARGV[1]  node
Returns nothing.
]]
-- @include forget-node
