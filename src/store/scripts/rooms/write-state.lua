--[[
Writes a node's state of a room, and tells the other nodes.

KEYS[1]  hash: node → its sealed state of the room
KEYS[2]  set: hashes in which the node has a field
ARGV[1]  node
ARGV[2]  sealed state
ARGV[3]  channel of the room
Returns nothing.
]]
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SADD', KEYS[2], KEYS[1])
redis.call('PUBLISH', ARGV[3], ARGV[1] .. ' ' .. ARGV[2])
