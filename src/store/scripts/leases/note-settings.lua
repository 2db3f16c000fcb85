--[[
Notes the session and settings of a peer, if the connection holds its lease.

KEYS[1]  sorted set: peer → expiry of its lease, ms by Redis's clock
KEYS[2]  hash: peer → connection that holds its lease
KEYS[3]  hash: peer → its place, for when it comes back on another node
KEYS[4]  hash: peer → its session and settings, separated by a space
KEYS[5]  hash: peer → connection that holds its lease, and the order of the lease, separated by a space
ARGV[1]  peer
ARGV[2]  connection
ARGV[3]  session and settings, separated by a space
Returns nothing.
]]
-- @include expire-with-leases
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[3])
expireWithLeases(KEYS[4])
