--[[
Notes that a usage worker is alive, and removes those that are not: silent ones, and ones whose time lies ahead of Redis's, whose
clock went back.

KEYS[1]  sorted set: usage workers by their last sign of life, ms by Redis's clock
KEYS[2]  hash: usage worker → by how much its clock is ahead, ms
ARGV[1]  worker
ARGV[2]  by how much its clock is ahead, ms
ARGV[3]  silence after which a worker is gone, ms
Returns nothing.
]]
-- @include now
for _, range in ipairs({ { '-inf', now - ARGV[3] }, { now + 1, '+inf' } }) do
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], range[1], range[2])) do
    redis.call('ZREM', KEYS[1], worker)
    redis.call('HDEL', KEYS[2], worker)
  end
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
