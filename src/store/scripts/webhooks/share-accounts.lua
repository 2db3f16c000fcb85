--[[
Deals accounts with events out to workers: each takes its share of those that no worker has.

KEYS[1]  prefix of webhooks
ARGV[1]  worker, which shows by this that it lives
ARGV[2]  maximum number of its accounts
ARGV[3…] workers that are dead
Returns { accounts of the worker; all workers, each followed by how often it has done this }.
]]
local prefix, worker = KEYS[1], ARGV[1]
for i = 3, #ARGV do redis.call('HDEL', prefix .. 'workers', ARGV[i]) end
redis.call('HINCRBY', prefix .. 'workers', worker, 1)
local holders, mine = prefix .. 'holders', {}
local held = redis.call('HGETALL', holders)
for i = 1, #held, 2 do
  if redis.call('HEXISTS', prefix .. 'workers', held[i + 1]) == 0 then
    redis.call('HDEL', holders, held[i])
  elseif held[i + 1] == worker then
    mine[#mine + 1] = held[i]
  end
end
local accounts = redis.call('ZRANGE', prefix .. 'accounts', 0, -1)
local share = math.min(tonumber(ARGV[2]), math.ceil(#accounts / redis.call('HLEN', prefix .. 'workers')))
for _, account in ipairs(accounts) do
  if #mine >= share then break end
  if redis.call('HSETNX', holders, account, worker) == 1 then mine[#mine + 1] = account end
end
return { mine, redis.call('HGETALL', prefix .. 'workers') }
