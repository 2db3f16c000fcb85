--[[
Writes when an API key was used, unless it was revoked meanwhile.

KEYS[1]  hash: the API key
ARGV[1]  the time, ISO 8601
Returns nothing.
]]
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'last_used_at', ARGV[1]) end
