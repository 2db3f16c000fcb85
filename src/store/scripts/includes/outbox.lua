--[[
Events of rooms that wait to be sent. KEYS[1] is the prefix of webhooks. Events are JSON, ordered by their created_at, which is
made a number of its digits without the century.

Defines
  prefix                                   KEYS[1]
  outboxOf(account, room)                  key of the list of a room's events
  settle(account, room)                    puts room and account in order after the room's first event has changed
  takeFirst(account, room)                 removes the first event of a room
  giveUp(account, room)                    the same, and counts it as dropped
  push(account, room, event, maxWaiting, news)
                                           adds an event, and tells the channel `news`; drops the oldest one of a room or an account
                                           that has too many
]]
-- Maximum number of events of one room that wait.
local MAX_WAITING_OF_ROOM = 1000
local prefix = KEYS[1]
local function outboxOf(account, room) return prefix .. 'outbox:' .. account .. '\n' .. room end
local function orderOf(event)
  local found = { string.match(event, '"created_at":"%d%d(%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d)%.(%d%d%d)Z"') }
  return #found == 7 and table.concat(found) or '0'
end
local function settle(account, room)
  local rooms = prefix .. 'rooms:' .. account
  local head = redis.call('LINDEX', outboxOf(account, room), 0)
  if head then redis.call('ZADD', rooms, orderOf(head), room) else redis.call('ZREM', rooms, room) end
  local oldest = redis.call('ZRANGE', rooms, 0, 0, 'WITHSCORES')
  if oldest[2] then
    redis.call('ZADD', prefix .. 'accounts', oldest[2], account)
  else
    redis.call('ZREM', prefix .. 'accounts', account)
    redis.call('HDEL', prefix .. 'counts', account)
  end
end
local function takeFirst(account, room)
  redis.call('LPOP', outboxOf(account, room))
  redis.call('HINCRBY', prefix .. 'counts', account, -1)
  settle(account, room)
end
local function giveUp(account, room)
  takeFirst(account, room)
  redis.call('HINCRBY', prefix .. 'dropped_of', account, 1)
  redis.call('INCR', prefix .. 'dropped')
end
local function push(account, room, event, maxWaiting, news)
  local waiting = redis.call('HINCRBY', prefix .. 'counts', account, 1)
  local inRoom = redis.call('RPUSH', outboxOf(account, room), event)
  if inRoom == 1 then settle(account, room) end
  if inRoom > MAX_WAITING_OF_ROOM then
    giveUp(account, room)
  elseif waiting > maxWaiting then
    giveUp(account, redis.call('ZRANGE', prefix .. 'rooms:' .. account, 0, 0)[1])
  end
  redis.call('PUBLISH', news, account)
end
