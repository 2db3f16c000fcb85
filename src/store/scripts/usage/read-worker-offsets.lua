--[[
Reads by how much the clocks of usage workers that are alive are ahead.

KEYS[1]  sorted set: usage workers by their last sign of life, ms by Redis's clock
KEYS[2]  hash: usage worker → by how much its clock is ahead, ms
ARGV[1]  silence after which a worker is gone, ms
Returns an offset for each worker, ms.
]]
-- @include now
local offsets = {}
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now - ARGV[1], now)) do
  offsets[#offsets + 1] = redis.call('HGET', KEYS[2], worker)
end
return offsets
