--[[
Counts the leases of an account that have not expired.

KEYS[1]  sorted set: peer → expiry of its lease, ms by Redis's clock
Returns their number.
]]
-- @include now
return redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
