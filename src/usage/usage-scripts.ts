import { MAX_ROOMS_A_MINUTE, OTHER_ROOMS } from './meter.ts';

/**
 * The scripts of {@link UsageStore}. KEYS[1] is the prefix of all keys of usage; the keys themselves are described there.
 * Sums are whole milliseconds, and pass through Redis as text, which Lua's own way of writing numbers would round.
 */

/** How long what was written of a closed minute is kept, for processes that write to it late, s. */
const CLOSED_KEPT_S = 48 * 3600;

/** Milliseconds in a count; 0 if there is none. */
const MS_OF = `
local function msOf(count)
  if not count then return 0 end
  local websocket, webrtc = string.match(count, '^(%d+):(%d+):')
  return tonumber(websocket) + tonumber(webrtc)
end
local function text(ms) return string.format('%.0f', ms) end
`;

/** ARGV[1]: JSON of an array of [account, minute, minute's number since 1970, [process|room, count, …]]. */
export const WRITE = `
${MS_OF}
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
`;

/**
 * Adds up what processes have written of a minute, by room: names, and for each { websocketMs, webrtcMs, peak }. If
 * there are too many rooms, those that are recorded already are kept, then those with the most time; the rest is
 * added up as one.
 */
const FOLD = `
${MS_OF}
local function fold(account, minute)
  local names, rooms, counted = {}, {}, 0
  local fields = redis.call('HGETALL', KEYS[1] .. 'open:' .. account .. ':' .. minute)
  local function add(room, websocket, webrtc, peak)
    local total = rooms[room]
    if not total then
      total = { 0, 0, 0 }
      rooms[room] = total
      names[#names + 1] = room
    end
    rooms[room] = { total[1] + websocket, total[2] + webrtc, math.max(total[3], peak) }
  end
  for i = 1, #fields, 2 do
    if fields[i] == '=' then
      counted = tonumber(fields[i + 1])
    else
      local websocket, webrtc, peak = string.match(fields[i + 1], '^(%d+):(%d+):(%d+)$')
      add(string.match(fields[i], '^[^|]*|(.*)$'), websocket, webrtc, tonumber(peak))
    end
  end
  local records = KEYS[1] .. 'records:' .. account .. ':' .. string.sub(minute, 1, 10)
  local function recordOf(room) return redis.call('HGET', records, string.sub(minute, 12) .. '|' .. room) end
  if #names > ${MAX_ROOMS_A_MINUTE} then
    local all, weights = names, {}
    for _, room in ipairs(all) do
      weights[room] = rooms[room][1] + rooms[room][2]
      if room == '${OTHER_ROOMS}' then weights[room] = math.huge
      elseif recordOf(room) then weights[room] = weights[room] + 1e12 end
    end
    table.sort(all, function(one, other) return weights[one] > weights[other] end)
    names = {}
    for i = 1, ${MAX_ROOMS_A_MINUTE} do names[i] = all[i] end
    if all[1] ~= '${OTHER_ROOMS}' then add('${OTHER_ROOMS}', 0, 0, 0) end
    for i = ${MAX_ROOMS_A_MINUTE} + 1, #all do
      local rest = rooms[all[i]]
      if all[i] ~= '${OTHER_ROOMS}' then add('${OTHER_ROOMS}', rest[1], rest[2], rest[3]) end
    end
  end
  return names, rooms, counted, recordOf, #fields > 0, records
end
`;

/** Records a minute. ARGV: account, minute, how long the record is kept in s. */
export const CLOSE = `
${FOLD}
local account, minute = ARGV[1], ARGV[2]
local open = KEYS[1] .. 'open:' .. account .. ':' .. minute
local names, rooms, counted, recordOf, isThere, records = fold(account, minute)
if isThere then
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
  redis.call('EXPIRE', open, ${CLOSED_KEPT_S})
end
redis.call('SREM', KEYS[1] .. 'open:' .. account, minute)
redis.call('ZREM', KEYS[1] .. 'open', account .. '|' .. minute)
`;

/**
 * Usage of each room in a minute that is not closed, or open again. ARGV: account, minute. Returns for each room its
 * name, its count, and by how much websocketMs and webrtcMs are more than what is recorded already.
 */
export const READ_OPEN = `
${FOLD}
local names, rooms, counted, recordOf = fold(ARGV[1], ARGV[2])
local reply = {}
for _, room in ipairs(names) do
  local total = rooms[room]
  local before = { string.match(recordOf(room) or '0:0:0', '^(%d+):(%d+):') }
  reply[#reply + 1] = room
  reply[#reply + 1] = text(total[1]) .. ':' .. text(total[2]) .. ':' .. text(total[3])
  reply[#reply + 1] = text(total[1] - before[1]) .. ':' .. text(total[2] - before[2]) .. ':' .. text(total[3])
end
return reply
`;
