--[[
Lets leases expire that the connections still hold, and keeps what is stored beside them until then.

KEYS[1]  sorted set: peer → expiry of its lease, ms by Redis's clock
KEYS[2]  hash: peer → connection that holds its lease
KEYS[3]  hash: peer → its place, for when it comes back on another node
KEYS[4]  hash: peer → its session and settings, separated by a space
KEYS[5]  hash: peer → connection that holds its lease, and the order of the lease, separated by a space
ARGV[1]  duration until then, ms
ARGV[2…] peer and connection, in turn
Returns nothing.
]]
-- @include now
-- @include expire-at-least
local keptMs = tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], now + keptMs, ARGV[i])
  end
end
-- The next renewal would have put it off, which no longer comes. An expiry of 0 would remove the leases of other nodes.
if keptMs > 0 then expireAtLeast(KEYS, keptMs) end
