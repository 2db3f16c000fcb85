--[[
Removes a node from the nodes that live, and its field from every hash that has one.

KEYS[1]  sorted set: nodes by their last heartbeat
KEYS[2]  set: hashes in which the node has a field
ARGV[1]  node
]]
for _, key in ipairs(redis.call('SMEMBERS', KEYS[2])) do redis.call('HDEL', key, ARGV[1]) end
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[1], ARGV[1])
