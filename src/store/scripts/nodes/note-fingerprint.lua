--[[
Notes the fingerprint of a node's cluster key, unless a node that lives has another one.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
KEYS[2]  hash: node → fingerprint of its cluster key
KEYS[3]  set: hashes in which the node has a field
ARGV[1]  node
ARGV[2]  fingerprint
ARGV[3]  silence after which a node is dead, ms
ARGV[4]  1 if a node lives whose last heartbeat lies ahead
Returns a node that has another fingerprint; empty if none has.
]]
-- @include is-alive
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local isOther = all[i] ~= ARGV[1] and all[i + 1] ~= ARGV[2]
  if isOther and isAlive(all[i], ARGV[3], ARGV[4]) then return all[i] end
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('SADD', KEYS[3], KEYS[2])
return ''
