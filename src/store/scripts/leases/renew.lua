--[[
Puts off the expiry of leases, also of those that were lost, but not of those that a newer connection took. An older one holds a lease
again after a failover that lost the newer one's admission.

KEYS[1]  sorted set: peer → expiry of its lease, ms by Redis's clock
KEYS[2]  hash: peer → connection that holds its lease
KEYS[3]  hash: peer → its place, for when it comes back on another node
KEYS[4]  hash: peer → its session and settings, separated by a space
KEYS[5]  hash: peer → connection that holds its lease, and the order of the lease, separated by a space
ARGV[1]  duration of a lease, ms
ARGV[2…] peer, connection, and order of its lease, in turn
Returns { connections whose leases were taken, connections without a place, connections without session and settings, connections
that did not hold their leases, and have them again }.
]]
-- @include now
-- @include expire-at-least
local peers, leases, holders, orders = {}, {}, {}, {}
local taken, placeless, unset, regained = {}, {}, {}, {}
for i = 2, #ARGV, 3 do peers[#peers + 1] = ARGV[i] end
local held = redis.call('HMGET', KEYS[2], unpack(peers))
-- A process of an earlier build notes no order: its connections count as newer.
local function isOlder(holder, peer, order)
  local noted = redis.call('HGET', KEYS[5], peer)
  local connection, of = string.match(noted or '', '^(.*) (%d+)$')
  return connection == holder and tonumber(of) < tonumber(order)
end
for i, peer in ipairs(peers) do
  local at = 3 * i
  local connection, order = ARGV[at], ARGV[at + 1]
  local isHolder = held[i] == connection
  if isHolder or not held[i] or isOlder(held[i], peer, order) then
    leases[#leases + 1] = now + ARGV[1]
    leases[#leases + 1] = peer
    holders[#holders + 1] = peer
    holders[#holders + 1] = connection
    orders[#orders + 1] = peer
    orders[#orders + 1] = connection .. ' ' .. order
    if not isHolder then regained[#regained + 1] = connection end
    if redis.call('HEXISTS', KEYS[3], peer) == 0 then placeless[#placeless + 1] = connection end
    if redis.call('HEXISTS', KEYS[4], peer) == 0 then unset[#unset + 1] = connection end
  else
    taken[#taken + 1] = connection
  end
end
if #leases > 0 then
  redis.call('ZADD', KEYS[1], unpack(leases))
  redis.call('HSET', KEYS[2], unpack(holders))
  redis.call('HSET', KEYS[5], unpack(orders))
end
expireAtLeast(KEYS, 2 * ARGV[1])
return { taken, placeless, unset, regained }
