--[[
Ends a gateway's turn with the demo account, if it has not expired and become another gateway's.

KEYS[1]  string: the gateway whose turn it is
ARGV[1]  the gateway
Returns nothing.
]]
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
