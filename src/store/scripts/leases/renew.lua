--[[
Puts off the expiry of leases, also of those that were lost, but not of those that another connection took.

KEYS[1]  sorted set: peer → expiry of its lease, ms by Redis's clock
KEYS[2]  hash: peer → connection that holds its lease
KEYS[3]  hash: peer → its place, for when it comes back on another node
KEYS[4]  hash: peer → its session and settings, separated by a space
ARGV[1]  duration of a lease, ms
ARGV[2…] peer and connection, in turn
Returns { connections whose leases were taken, connections without a place, connections without session and settings, connections
that did not hold their leases, and have them again }.
]]
-- @include now
local peers, leases, holders, taken, placeless, unset, regained = {}, {}, {}, {}, {}, {}, {}
for i = 2, #ARGV, 2 do peers[#peers + 1] = ARGV[i] end
local held = redis.call('HMGET', KEYS[2], unpack(peers))
for i, peer in ipairs(peers) do
  local session = ARGV[2 * i + 1]
  if not held[i] or held[i] == session then
    leases[#leases + 1] = now + ARGV[1]
    leases[#leases + 1] = peer
    holders[#holders + 1] = peer
    holders[#holders + 1] = session
    if not held[i] then regained[#regained + 1] = session end
    if redis.call('HEXISTS', KEYS[3], peer) == 0 then placeless[#placeless + 1] = session end
    if redis.call('HEXISTS', KEYS[4], peer) == 0 then unset[#unset + 1] = session end
  else
    taken[#taken + 1] = session
  end
end
if #leases > 0 then
  redis.call('ZADD', KEYS[1], unpack(leases))
  redis.call('HSET', KEYS[2], unpack(holders))
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 2 * ARGV[1]) end
return { taken, placeless, unset, regained }
