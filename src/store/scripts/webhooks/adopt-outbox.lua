--[[
Takes over events of nodes of earlier versions, which name places with events in one set.

KEYS[1]  prefix of webhooks
Returns nothing.
]]
-- @include outbox
for _, place in ipairs(redis.call('SPOP', prefix .. 'waiting', 1000)) do
  local account, room = string.match(place, '^(%d+)\n(.*)$')
  local waiting = redis.call('LLEN', outboxOf(account, room))
  if waiting > 0 and not redis.call('ZSCORE', prefix .. 'rooms:' .. account, room) then
    redis.call('HINCRBY', prefix .. 'counts', account, waiting)
    settle(account, room)
  end
end
