--[[
Removes a worker that ends: others take its accounts at once.

KEYS[1]  prefix of webhooks
ARGV[1]  worker
Returns nothing.
]]
redis.call('HDEL', KEYS[1] .. 'workers', ARGV[1])
local held = redis.call('HGETALL', KEYS[1] .. 'holders')
for i = 1, #held, 2 do
  if held[i + 1] == ARGV[1] then redis.call('HDEL', KEYS[1] .. 'holders', held[i]) end
end
