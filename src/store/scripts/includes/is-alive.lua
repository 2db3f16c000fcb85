--[[
Judges nodes for a process that has not watched them, such as one that starts; src/store/liveness.ts judges them over time.

KEYS[1]  sorted set: nodes by their last heartbeat, ms by Redis's clock
Defines
  isAlive(node, deadAfterMs, mayBeAhead)  Returns whether the last heartbeat of a node is younger than that. One that lies ahead,
      as after a step back of Redis's clock, counts if mayBeAhead is '1'
]]
-- @include now
local function isAlive(node, deadAfterMs, mayBeAhead)
  local heartbeat = redis.call('ZSCORE', KEYS[1], node)
  if not heartbeat then return false end
  local ageMs = now - heartbeat
  return ageMs < tonumber(deadAfterMs) and (ageMs >= 0 or mayBeAhead == '1')
end
