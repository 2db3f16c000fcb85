--[[
Adds a signing key if there is none.

KEYS[1]  list: keys that sign tokens
ARGV[1]  the key, as JSON
Returns nothing.
]]
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('LPUSH', KEYS[1], ARGV[1]) end
