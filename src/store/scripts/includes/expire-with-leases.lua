--[[
Expiry of what is stored beside the leases of an account. KEYS[1] is the sorted set of its leases.

Defines
  expireWithLeases(key)  gives a key that may be new the expiry of the leases, which a renewal puts off
]]
local function expireWithLeases(key)
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('PEXPIRE', key, left) end
end
