--[[
Notes that a node has ended, and for how long it keeps the places of its peers. A peer that has gone to another node is no longer its
peer; others are until they come to another node.

KEYS[1]  prefix of webhooks
ARGV[1]  node
ARGV[2]  time for which it keeps places, ms
Returns nothing.
]]
local prefix, node = KEYS[1], ARGV[1]
if redis.call('HEXISTS', prefix .. 'nodes', node) == 0 then return end
redis.call('HSET', prefix .. 'departed', node, ARGV[2])
-- The time is counted from this heartbeat, the last one.
redis.call('HINCRBY', prefix .. 'nodes', node, 1)
for _, held in ipairs(redis.call('HKEYS', prefix .. 'node:' .. node)) do
  local place, peer = string.match(held, '^(%d+\n[^\n]*)\n(.*)$')
  local peers = prefix .. 'peers:' .. place
  local isElsewhere = tonumber(redis.call('HGET', peers, peer) or '0') > 1
  if isElsewhere and redis.call('HGET', prefix .. 'latest:' .. place, peer) ~= node then
    redis.call('HDEL', prefix .. 'node:' .. node, held)
    redis.call('HINCRBY', peers, peer, -1)
  end
end
