--[[
Gives the next account id. As long as the same server runs that gave the last one, or the file beside its data is the one
written then, the ids that Redis knows of are all there are. Otherwise Redis may have been given an older backup: the ids that
were given since are skipped, one for each second and the margin.

KEYS[1]  string: the last id that was given
KEYS[2]  hash: where and when that was
ARGV[1]  id in the file; 0 without a file
ARGV[2]  identity of the file; empty without one
ARGV[3]  prefix of the keys of accounts
ARGV[4]  margin, ids
Returns the id.
]]
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
local now = tonumber(redis.call('TIME')[1])
local last = tonumber(redis.call('GET', KEYS[1]) or 0)
local given = redis.call('HMGET', KEYS[2], 'run', 'file', 'at')
local inFile = tonumber(ARGV[1])
local isSame = (run ~= '' and given[1] == run) or (ARGV[2] ~= '' and given[2] == ARGV[2])
if not isSame and (last > 0 or inFile > 0) then
  last = math.max(last, inFile) + tonumber(ARGV[4]) + math.max(0, now - tonumber(given[3] or now))
end
repeat last = last + 1 until redis.call('EXISTS', ARGV[3] .. last) == 0
redis.call('SET', KEYS[1], last)
redis.call('HSET', KEYS[2], 'run', run, 'at', now)
redis.call('HDEL', KEYS[2], 'file')
return last
