--[[
Makes a new key sign tokens.

KEYS[1]  list: keys that sign tokens, the newest first
KEYS[2]  set: ids of withdrawn keys
KEYS[3]  set: ids of keys that left the list and were not withdrawn
ARGV[1]  the new key, as JSON with `created_ms`
ARGV[2]  1 if all keys before are withdrawn
ARGV[3]  created_ms of the oldest key of whose predecessor a signature may still be valid
ARGV[4]  lifetime of the set of withdrawn keys, seconds
ARGV[5]  channel of changes
Returns nothing.
]]
redis.call('LPUSH', KEYS[1], ARGV[1])
local keys = redis.call('LRANGE', KEYS[1], 0, -1)
local kept = 1
if ARGV[2] ~= '1' then
  kept = 2
  -- A key signs until the next one is created. Keys of earlier versions do not say when that was.
  while keys[kept + 1] and (cjson.decode(keys[kept]).created_ms or 0) >= tonumber(ARGV[3]) do kept = kept + 1 end
end
for i = kept + 1, #keys do redis.call('SADD', KEYS[3], cjson.decode(keys[i]).id) end
redis.call('LTRIM', KEYS[1], 0, kept - 1)
if ARGV[2] == '1' then
  redis.call('SUNIONSTORE', KEYS[2], KEYS[2], KEYS[3])
  redis.call('EXPIRE', KEYS[2], ARGV[4])
  redis.call('DEL', KEYS[3])
end
redis.call('PUBLISH', ARGV[5], '')
