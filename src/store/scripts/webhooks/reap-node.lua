--[[
Declares a node dead, unless it has shown since that it lives.

KEYS[1]  prefix of webhooks
ARGV[1]  node
ARGV[2]  how often it had shown that it lives
Returns nothing.
]]
if redis.call('HGET', KEYS[1] .. 'nodes', ARGV[1]) ~= ARGV[2] then return end
-- This comes first: a Redis without memory refuses it, but not HDEL, nor anything that a script does after its first write.
redis.call('SADD', KEYS[1] .. 'dead', ARGV[1])
redis.call('HDEL', KEYS[1] .. 'nodes', ARGV[1])
