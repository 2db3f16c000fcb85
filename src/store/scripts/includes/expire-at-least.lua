--[[
Expiry of the keys of leases. A node that left may have put it off for longer than a renewal does.

Defines
  expireAtLeast(keys, ms)  puts off the expiry of keys, unless it is later already
]]
local function expireAtLeast(keys, ms)
  for _, key in ipairs(keys) do
    if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end
  end
end
