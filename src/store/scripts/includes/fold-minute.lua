--[[
Sums of what processes have written of one minute, by room. KEYS[1] is the prefix of usage.

Defines
  fold(account, minute, otherRooms, limits)  Returns the names of the rooms; for each name { websocketMs, webrtcMs, peak };
      the ms that the month has of the minute; recordOf(room), its count in the record; whether anything was written; and the key
      of the record. If there are more rooms than limits[1], those that are recorded already are kept, then those with the most time;
      the rest are added up under the name otherRooms. So are rooms without a record of this minute once the record of the day has
      limits[3] fields, and those that are also without one of this hour once the hours of the day have limits[2].
]]
-- @include peer-ms
local function fold(account, minute, otherRooms, limits)
  local maxRooms, maxHours, maxMinutes = tonumber(limits[1]), tonumber(limits[2]), tonumber(limits[3])
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
  local hours = KEYS[1] .. 'hours:' .. account .. ':' .. string.sub(minute, 1, 10)
  local areMinutesFull = redis.call('HLEN', records) >= maxMinutes
  -- Hashes of a day only grow: what has been added up once is so again when the minute is read or closed again.
  if areMinutesFull or redis.call('HLEN', hours) >= maxHours then
    local all = names
    names = {}
    for _, room in ipairs(all) do
      local isKept = room == otherRooms or recordOf(room)
        or (not areMinutesFull and redis.call('HEXISTS', hours, string.sub(minute, 12, 13) .. '|' .. room) == 1)
      if isKept then names[#names + 1] = room end
    end
    if #names < #all and not rooms[otherRooms] then add(otherRooms, 0, 0, 0) end
    local kept = {}
    for _, room in ipairs(names) do kept[room] = true end
    for _, room in ipairs(all) do
      if not kept[room] then add(otherRooms, rooms[room][1], rooms[room][2], rooms[room][3]) end
    end
  end
  if #names > maxRooms then
    local all, weights = {}, {}
    for _, room in ipairs(names) do
      if room ~= otherRooms then
        all[#all + 1] = room
        weights[room] = rooms[room][1] + rooms[room][2] + (recordOf(room) and 1e12 or 0)
      end
    end
    table.sort(all, function(one, other) return weights[one] > weights[other] end)
    names = {}
    for i = 1, math.min(maxRooms, #all) do names[i] = all[i] end
    if rooms[otherRooms] then names[#names + 1] = otherRooms end
    for i = maxRooms + 1, #all do
      local rest = rooms[all[i]]
      add(otherRooms, rest[1], rest[2], rest[3])
    end
  end
  return names, rooms, counted, recordOf, #fields > 0, records
end
