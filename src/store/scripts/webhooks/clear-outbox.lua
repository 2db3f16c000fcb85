--[[
Forgets the events that wait of an account that has no webhook.

KEYS[1]  prefix of webhooks
ARGV[1]  account
Returns nothing.
]]
-- @include outbox
for _, room in ipairs(redis.call('ZRANGE', prefix .. 'rooms:' .. ARGV[1], 0, -1)) do
  redis.call('DEL', outboxOf(ARGV[1], room))
end
redis.call('DEL', prefix .. 'rooms:' .. ARGV[1])
redis.call('ZREM', prefix .. 'accounts', ARGV[1])
redis.call('HDEL', prefix .. 'counts', ARGV[1])
