--[[
Gives up events that are older than an order, then finds the rooms whose first events are the oldest.

KEYS[1]  prefix of webhooks
ARGV[1]  account
ARGV[2]  order
ARGV[3]  maximum number of rooms
Returns how many events were given up, then for each room its name and its first event.
]]
-- @include outbox
-- Maximum number of events that are given up for their age in one run.
local GIVEN_UP_AT_ONCE = 1000
local rooms, given = prefix .. 'rooms:' .. ARGV[1], 0
while given < GIVEN_UP_AT_ONCE do
  local old = redis.call('ZRANGEBYSCORE', rooms, '-inf', '(' .. ARGV[2], 'LIMIT', 0, 1)
  if #old == 0 then break end
  giveUp(ARGV[1], old[1])
  given = given + 1
end
local heads = { given }
if tonumber(ARGV[3]) > 0 then
  for _, room in ipairs(redis.call('ZRANGE', rooms, 0, ARGV[3] - 1)) do
    heads[#heads + 1] = room
    heads[#heads + 1] = redis.call('LINDEX', outboxOf(ARGV[1], room), 0)
  end
end
return heads
