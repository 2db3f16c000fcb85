--[[
Counts what waits of all accounts.

KEYS[1]  prefix of webhooks
Returns { rooms; events; order of the oldest event, empty if none waits; events that were given up }.
]]
local rooms, events = 0, 0
for _, account in ipairs(redis.call('ZRANGE', KEYS[1] .. 'accounts', 0, -1)) do
  rooms = rooms + redis.call('ZCARD', KEYS[1] .. 'rooms:' .. account)
end
for _, waiting in ipairs(redis.call('HVALS', KEYS[1] .. 'counts')) do events = events + waiting end
local oldest = redis.call('ZRANGE', KEYS[1] .. 'accounts', 0, 0, 'WITHSCORES')
return { rooms, events, oldest[2] or '', redis.call('GET', KEYS[1] .. 'dropped') or '0' }
