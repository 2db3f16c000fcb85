--[[
Notes the format of a node and of the state, unless a node that lives has another format, or the state is of a version that the
caller cannot read. Other processes than nodes write nothing, so that they can read while Redis takes no writes. Nodes of version
0.1 have a fingerprint of their cluster key, and no format.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
KEYS[2]  hash: node → format and version
KEYS[3]  hash: node → fingerprint of its cluster key
KEYS[4]  hash: format and version of the state, and the format from which it can be read
KEYS[5]  set: hashes in which the node has a field
ARGV[1]  node; empty for a process that is none
ARGV[2]  format
ARGV[3]  format from which the state can be read
ARGV[4]  version
ARGV[5]  silence after which a node is dead, ms
ARGV[6]  1 if a node lives whose last heartbeat lies ahead
Returns what is in the way: { 'node', its id, its version } or { 'state', '', its version }; {} if nothing is.
]]
-- @include is-alive
for _, node in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local other = redis.call('HGET', KEYS[2], node)
  if not other and redis.call('HEXISTS', KEYS[3], node) == 1 then other = '1 0.1' end
  if isAlive(node, ARGV[5], ARGV[6]) and node ~= ARGV[1] and other and other:match('^%d+') ~= ARGV[2] then
    return { 'node', node, other:match('%S+$') }
  end
end
local readableFrom = redis.call('HGET', KEYS[4], 'readable_from')
if readableFrom and tonumber(readableFrom) > tonumber(ARGV[2]) then
  return { 'state', '', redis.call('HGET', KEYS[4], 'version') }
end
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[4], 'format', ARGV[2], 'readable_from', ARGV[3], 'version', ARGV[4])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ' ' .. ARGV[4])
  redis.call('SADD', KEYS[5], KEYS[2])
end
return {}
