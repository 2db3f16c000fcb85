--[[
Removes the first event of a room that was sent or given up.

KEYS[1]  prefix of webhooks
ARGV[1]  account
ARGV[2]  room
ARGV[3]  the event
ARGV[4]  1 if it was given up
Returns 1, or 0 if it was not the first event.
]]
-- @include outbox
if redis.call('LINDEX', outboxOf(ARGV[1], ARGV[2]), 0) ~= ARGV[3] then return 0 end
if ARGV[4] == '1' then giveUp(ARGV[1], ARGV[2]) else takeFirst(ARGV[1], ARGV[2]) end
return 1
