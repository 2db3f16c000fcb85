--[[
Writes fields of an account. A closed account stays as it is; only its webhook URL can be removed, because its waiting events are still sent.

KEYS[1]  hash: the account
KEYS[2]  string: the secret that signs its webhooks
KEYS[3]  set: ids of the accounts that have a webhook
KEYS[4]  set: ids of all accounts
ARGV[1]  id of the account
ARGV[2]  1 if it is made now; otherwise it must exist
ARGV[3]  secret for webhook_url, if that is set; otherwise empty
ARGV[4]  channel of changes
ARGV[5…] names of fields, each followed by its value; an empty value removes the field
Returns the fields of the account, each followed by its value; or `missing` or `closed`: nothing is written then.
]]
local id, secret = ARGV[1], ARGV[3]
if ARGV[2] ~= '1' then
  local stored = redis.call('HMGET', KEYS[1], 'id', 'status')
  if not stored[1] then return 'missing' end
  local isRemoval = table.concat(ARGV, '\n', 5) == 'webhook_url\n'
  if stored[2] == 'closed' and not isRemoval then return 'closed' end
end
-- This comes first: a Redis without memory refuses it, but not HDEL, nor anything that a script does after its first write.
redis.call('SADD', KEYS[4], id)
for i = 5, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  if value ~= '' then
    redis.call('HSET', KEYS[1], name, value)
  else
    redis.call('HDEL', KEYS[1], name)
    if name == 'webhook_url' then
      redis.call('DEL', KEYS[2])
      redis.call('SREM', KEYS[3], id)
    end
  end
end
if secret ~= '' then
  redis.call('SET', KEYS[2], secret)
  redis.call('SADD', KEYS[3], id)
end
redis.call('PUBLISH', ARGV[4], id)
return redis.call('HGETALL', KEYS[1])
