--[[
Judges nodes for a process that has not watched them, such as one that starts; src/store/liveness.ts judges them over time.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
Defines
  isAlive(node, deadAfterMs)  Returns whether the last heartbeat of a node is younger than that
]]
-- @include now
local function isAlive(node, deadAfterMs)
  local heartbeat = redis.call('ZSCORE', KEYS[1], node)
  return heartbeat and now - heartbeat < tonumber(deadAfterMs)
end
