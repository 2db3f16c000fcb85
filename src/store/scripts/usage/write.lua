--[[
Writes what a process has counted of minutes, in place of what it wrote before; months grow by the difference.

KEYS[1]  prefix of usage
ARGV[1]  JSON of an array of arrays: account, minute, the minute's number since 1970, and an array of process|room and count in turn
Returns nothing.
]]
-- @include peer-ms
for _, written in ipairs(cjson.decode(ARGV[1])) do
  local account, minute, fields = written[1], written[2], written[4]
  local open = KEYS[1] .. 'open:' .. account .. ':' .. minute
  local names, grown = {}, 0
  for i = 1, #fields, 2 do names[#names + 1] = fields[i] end
  for i, before in ipairs(redis.call('HMGET', open, unpack(names))) do
    grown = grown + msOf(fields[2 * i]) - msOf(before)
  end
  redis.call('HSET', open, unpack(fields))
  redis.call('PERSIST', open)
  if grown ~= 0 then
    redis.call('HINCRBY', open, '=', text(grown))
    redis.call('HINCRBY', KEYS[1] .. 'months:' .. account, string.sub(minute, 1, 7), text(grown))
  end
  redis.call('SADD', KEYS[1] .. 'open:' .. account, minute)
  redis.call('ZADD', KEYS[1] .. 'open', written[3], account .. '|' .. minute)
end
