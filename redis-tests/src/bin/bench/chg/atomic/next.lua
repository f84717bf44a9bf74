-- Leases the head of chg_ready or, if chg_ready is empty, the first due group of chg_wait. KEYS: chg_ready,
-- chg_wait, chg_busy, chg_token; ARGV: key prefix of groups, lease in ms.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local chg = redis.call('LPOP', KEYS[1])
if not chg then
  chg = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1)[1]
  if not chg then return false end
  redis.call('ZREM', KEYS[2], chg)
end
local token = redis.call('INCR', KEYS[4])
local deadline = now + tonumber(ARGV[2])
redis.call('ZADD', KEYS[3], deadline, chg)
local group = ARGV[1] .. chg
redis.call('HSET', group, 'token', token)
local fields = redis.call('HMGET', group, 'n', 'c')
return {chg, token, deadline, fields[1], fields[2]}
