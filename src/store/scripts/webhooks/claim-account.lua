--[[
Takes an account for a worker, if it has events and no worker has it.

KEYS[1]  prefix of webhooks
ARGV[1]  worker
ARGV[2]  account
Returns 1 if it is the worker's from now on, otherwise 0.
]]
if not redis.call('ZSCORE', KEYS[1] .. 'accounts', ARGV[2]) then return 0 end
if redis.call('HEXISTS', KEYS[1] .. 'workers', ARGV[1]) == 0 then return 0 end
return redis.call('HSETNX', KEYS[1] .. 'holders', ARGV[2], ARGV[1])
