--[[
Gives an account back, if it has no events.

KEYS[1]  prefix of webhooks
ARGV[1]  worker
ARGV[2]  account
Returns 0 if it has events and stays the worker's, otherwise 1.
]]
local holders = KEYS[1] .. 'holders'
if redis.call('HGET', holders, ARGV[2]) ~= ARGV[1] then return 1 end
if redis.call('ZSCORE', KEYS[1] .. 'accounts', ARGV[2]) then return 0 end
redis.call('HDEL', holders, ARGV[2])
return 1
