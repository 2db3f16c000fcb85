--[[
Time of Redis's own clock, which all nodes share.

Defines
  time  seconds since 1970 and microseconds of the second, as text
  now   ms since 1970
]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
