--[[
Records a minute, and adds to its month what the month does not have of it yet.

KEYS[1]  prefix of usage
ARGV[1]  account
ARGV[2]  minute
ARGV[3]  duration for which the record is kept, s
ARGV[4]  name under which rooms beyond the limits are added up
ARGV[5]  limits: rooms in a minute,
ARGV[6]  rooms in the hours of a day, added up,
ARGV[7]  and rooms in the minutes of a day, added up
Returns nothing.
]]
-- @include fold-minute
-- Time for which a closed minute's counts are kept, for processes that write to it late, s.
local CLOSED_KEPT_S = 48 * 3600
local account, minute = ARGV[1], ARGV[2]
local open = KEYS[1] .. 'open:' .. account .. ':' .. minute
local names, rooms, counted, recordOf, isRecorded, records = fold(account, minute, ARGV[4], { ARGV[5], ARGV[6], ARGV[7] })
if isRecorded then
  local hours = KEYS[1] .. 'hours:' .. account .. ':' .. string.sub(minute, 1, 10)
  -- Hours of a day that was begun without them would be less than their minutes.
  if redis.call('EXISTS', records) == 0 then redis.call('HSET', hours, '=', '1') end
  local hasHours = redis.call('HEXISTS', hours, '=') == 1
  local sum = 0
  for _, room in ipairs(names) do
    local total = rooms[room]
    sum = sum + total[1] + total[2]
    if total[1] + total[2] > 0 then
      local before = { string.match(recordOf(room) or '0:0:0', '^(%d+):(%d+):(%d+)$') }
      redis.call('HSET', records, string.sub(minute, 12) .. '|' .. room, text(total[1]) .. ':' .. text(total[2]) .. ':' .. text(total[3]))
      if hasHours then
        local field = string.sub(minute, 12, 13) .. '|' .. room
        local hour = { string.match(redis.call('HGET', hours, field) or '0:0:0', '^(%d+):(%d+):(%d+)$') }
        redis.call('HSET', hours, field, text(hour[1] + total[1] - before[1]) .. ':' .. text(hour[2] + total[2] - before[2])
          .. ':' .. text(math.max(hour[3], total[3])))
      end
    end
  end
  for _, key in ipairs({ records, hours }) do redis.call('EXPIRE', key, ARGV[3]) end
  redis.call('HINCRBY', KEYS[1] .. 'months:' .. account, string.sub(minute, 1, 7), text(sum - counted))
  redis.call('HSET', open, '=', text(sum))
  redis.call('EXPIRE', open, CLOSED_KEPT_S)
end
redis.call('SREM', KEYS[1] .. 'open:' .. account, minute)
redis.call('ZREM', KEYS[1] .. 'open', account .. '|' .. minute)
