--[[
Writes changes of a node's peers and the events that follow from them, and that the node lives. Numbered changes that were written
before change nothing.

KEYS[1]  prefix of webhooks
ARGV[1]  node; what stands before the colon is the same in all its names
ARGV[2]  JSON of an array of changes: number, or 0 if telling it again does no harm; `join`, `again`, `leave` or `once`; place; then
         for `once`: key, expiry in ms since 1970, event; for the others: peer, kind, event of the peer, event of the room; for `join`
         and `again` also the event that ends the room as it was before (`again` ignores it)
ARGV[3]  number of changes that were given up before these
ARGV[4]  1 if the node is dead, and its peers are taken out
ARGV[5]  maximum number of events of an account that wait
ARGV[6]  channel of accounts that have events that wait
Returns 1, or 0 if the node is not known: nothing is written then.
]]
-- @include outbox
local isDead, maxWaiting = ARGV[4] == '1', tonumber(ARGV[5])
local node = prefix .. 'node:' .. ARGV[1]
if not isDead and redis.call('HEXISTS', prefix .. 'nodes', ARGV[1]) == 0 then return 0 end
local function createdAtOf(event) return string.match(event, '"created_at":"([^"]*)"') end
local function tell(place, event)
  local account, room = string.match(place, '^(%d+)\n(.*)$')
  push(account, room, event, maxWaiting, ARGV[6])
end
local function tellLeft(place, peerEvent, endEvent, isLast)
  tell(place, peerEvent)
  -- The last peer that is reported is not always the last that left, with which the room ended.
  local lastLeft = prefix .. 'last_left:' .. place
  local leftAt, lastLeftAt = createdAtOf(peerEvent), redis.call('GET', lastLeft)
  if lastLeftAt and lastLeftAt > leftAt then leftAt = lastLeftAt end
  if isLast then
    redis.call('DEL', lastLeft)
    tell(place, (string.gsub(endEvent, '"created_at":"[^"]*"', '"created_at":"' .. leftAt .. '"', 1)))
  else
    redis.call('SET', lastLeft, leftAt)
  end
end
local departed
-- A peer that comes to a node is no longer one of a node that has ended.
local function takeFromDeparted(place, peer)
  departed = departed or redis.call('HKEYS', prefix .. 'departed')
  for _, other in ipairs(departed) do
    if other ~= ARGV[1] and redis.call('HDEL', prefix .. 'node:' .. other, place .. '\n' .. peer) == 1 then
      redis.call('HINCRBY', prefix .. 'peers:' .. place, peer, -1)
    end
  end
end
local function join(place, peer, kind, peerEvent, roomEvent, endEvent)
  local isKnown = redis.call('HSETNX', node, place .. '\n' .. peer, kind) == 0
  local peers, left = prefix .. 'peers:' .. place, prefix .. 'left:' .. place
  local earlier = redis.call('HGET', left, peer)
  -- Also if this node knows the peer: its leave from here may have been held back, while it came to another node and left.
  redis.call('HDEL', left, peer)
  redis.call('HSET', prefix .. 'latest:' .. place, peer, ARGV[1])
  -- The peer had left the node to which it came last, and is back. A node that has not reported its leave still holds it.
  local isBack = earlier and endEvent
  if isKnown and not isBack then return takeFromDeparted(place, peer) end
  local isFirst = redis.call('EXISTS', peers) == 0
  if isBack then
    isFirst = redis.call('HLEN', peers) == 1
    tellLeft(place, earlier, endEvent, isFirst)
  end
  if isFirst then tell(place, roomEvent) end
  local isNew = not isKnown and redis.call('HINCRBY', peers, peer, 1) == 1
  if isNew or isBack then tell(place, peerEvent) end
  takeFromDeparted(place, peer)
end
local function idOf(name) return string.match(name, '^[^:]*') end
-- Tells again, under another name of the node, what it holds: nobody has come, so no leave is told first. A peer that came to another
-- node since may be there, or may have left it, which its node or the next join tells.
local function again(place, peer, kind, peerEvent, roomEvent)
  local latest = redis.call('HGET', prefix .. 'latest:' .. place, peer)
  if not latest or idOf(latest) == idOf(ARGV[1]) then return join(place, peer, kind, peerEvent, roomEvent) end
  if redis.call('HSETNX', node, place .. '\n' .. peer, kind) == 1 then
    redis.call('HINCRBY', prefix .. 'peers:' .. place, peer, 1)
  end
end
local function leave(place, peer, kind, peerEvent, roomEvent)
  if redis.call('HDEL', node, place .. '\n' .. peer) == 0 then return end
  local peers, left, latest = prefix .. 'peers:' .. place, prefix .. 'left:' .. place, prefix .. 'latest:' .. place
  if redis.call('HINCRBY', peers, peer, -1) > 0 then
    -- It went from the node to which it came last: another still holds it, and may be dead without anybody having noticed.
    if redis.call('HGET', latest, peer) == ARGV[1] then redis.call('HSET', left, peer, peerEvent) end
    return
  end
  local earlier = redis.call('HGET', left, peer)
  for _, key in ipairs({ peers, left, latest }) do redis.call('HDEL', key, peer) end
  -- A leave may have been held back: the peer left later, from the node to which it went.
  if earlier and (isDead or createdAtOf(earlier) > createdAtOf(peerEvent)) then peerEvent = earlier end
  tellLeft(place, peerEvent, roomEvent, redis.call('EXISTS', peers) == 0)
end
local function once(place, key, keptUntilMs, event)
  if redis.call('SET', prefix .. 'once:' .. key, '1', 'NX', 'PXAT', keptUntilMs) then tell(place, event) end
end
local operations = { join = join, again = again, leave = leave, once = once }
local last = tonumber(redis.call('HGET', prefix .. 'numbers', ARGV[1]) or '0')
for _, change in ipairs(cjson.decode(ARGV[2])) do
  if change[1] == 0 or change[1] > last then operations[change[2]](unpack(change, 3)) end
  last = math.max(last, change[1])
end
redis.call('HSET', prefix .. 'numbers', ARGV[1], last)
if not isDead then
  local time = redis.call('TIME')
  redis.call('HINCRBY', prefix .. 'nodes', ARGV[1], 1)
  redis.call('HSET', prefix .. 'seen', ARGV[1], time[1] * 1000 + math.floor(time[2] / 1000))
end
if ARGV[3] ~= '0' then redis.call('INCRBY', prefix .. 'dropped', ARGV[3]) end
return 1
