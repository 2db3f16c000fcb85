--[[
Gives a lease back, if the connection holds it.

KEYS[1]  sorted set: peer → expiry of its lease, ms by Redis's clock
KEYS[2]  hash: peer → connection that holds its lease
KEYS[3]  hash: peer → its place, for when it comes back on another node
KEYS[4]  hash: peer → its session and settings, separated by a space
KEYS[5]  hash: peer → connection that holds its lease, and the order of the lease, separated by a space
KEYS[6]  string: the same of a client that lost its connection in the lobby, and with it its lease
KEYS[7]  string: order of the account's last lease
ARGV[1]  peer
ARGV[2]  connection
ARGV[3]  duration for which session and settings of a peer without a place are kept, ms
ARGV[4]  1 if the connection was refused after it had taken the lease
Returns nothing.
]]
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return end
-- A failed attempt changes nothing: a connection before it takes the lease back, or all expires as after a crash.
if ARGV[4] == '1' and redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[5], ARGV[1])
  return
end
local settings = redis.call('HGET', KEYS[4], ARGV[1])
if settings and tonumber(ARGV[3]) > 0 then redis.call('SET', KEYS[6], settings, 'PX', ARGV[3]) end
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[5], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
