--[[
Reads the usage of each room in a minute that is not closed, or open again.

KEYS[1]  prefix of usage
ARGV[1]  account
ARGV[2]  minute
ARGV[3]  name under which rooms beyond the limits are added up
ARGV[4]  limits: rooms in a minute,
ARGV[5]  rooms in the hours of a day, added up,
ARGV[6]  and rooms in the minutes of a day, added up
Returns for each room its name, its count, and by how much the count is more than what is recorded already.
]]
-- @include fold-minute
local names, rooms, counted, recordOf = fold(ARGV[1], ARGV[2], ARGV[3], { ARGV[4], ARGV[5], ARGV[6] })
local reply = {}
for _, room in ipairs(names) do
  local total = rooms[room]
  local before = { string.match(recordOf(room) or '0:0:0', '^(%d+):(%d+):') }
  reply[#reply + 1] = room
  reply[#reply + 1] = text(total[1]) .. ':' .. text(total[2]) .. ':' .. text(total[3])
  reply[#reply + 1] = text(total[1] - before[1]) .. ':' .. text(total[2] - before[2]) .. ':' .. text(total[3])
end
return reply
