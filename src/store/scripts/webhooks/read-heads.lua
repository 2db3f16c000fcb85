--[[
Gives up events that are older than an order, then finds the rooms whose first events are the oldest, and named ones.

KEYS[1]  prefix of webhooks
ARGV[1]  account
ARGV[2]  order
ARGV[3]  number of rooms that are left out, the first ones
ARGV[4]  maximum number of rooms behind these
ARGV[5…] names of further rooms
Returns how many events were given up, how many of the named rooms have one, then for each room its name and its first event: the
named ones first.
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
local heads = { given, 0 }
local function add(room)
  local head = redis.call('LINDEX', outboxOf(ARGV[1], room), 0)
  if head then
    heads[#heads + 1] = room
    heads[#heads + 1] = head
  end
end
for at = 5, #ARGV do add(ARGV[at]) end
heads[2] = (#heads - 2) / 2
if tonumber(ARGV[4]) > 0 then
  for _, room in ipairs(redis.call('ZRANGE', rooms, ARGV[3], ARGV[3] + ARGV[4] - 1)) do add(room) end
end
return heads
