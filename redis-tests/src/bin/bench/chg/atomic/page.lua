-- Completes a page and starts the next one: removes the URI, releases the group, and leases another group
-- with its first URI. KEYS: group, the execution's queue in this group, executions of this group, chg_busy,
-- chg_wait, chg_ready, EIDC, QCT, chg_token; ARGV: group, token, pause in ms, depth:time:uri, execution,
-- lease in ms, a number in [0, 1). The keys of the leased group are derived from its name.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] then return redis.error_reply('STALE') end
if redis.call('ZREM', KEYS[2], ARGV[4]) > 0 then
  redis.call('HINCRBY', KEYS[1], 'c', -1)
  if redis.call('HINCRBY', KEYS[7], ARGV[5], -1) <= 0 then redis.call('HDEL', KEYS[7], ARGV[5]) end
  redis.call('DECR', KEYS[8])
  if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('ZREM', KEYS[3], ARGV[5]) end
end
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[1], 'token')
local due = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'n', string.format('%.0f', due))
redis.call('ZADD', KEYS[5], due, ARGV[1])
local chg = redis.call('LPOP', KEYS[6])
if not chg then
  chg = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, 1)[1]
  if not chg then return due end
  redis.call('ZREM', KEYS[5], chg)
end
local token = redis.call('INCR', KEYS[9])
redis.call('ZADD', KEYS[4], now + tonumber(ARGV[6]), chg)
redis.call('HSET', 'CHG:' .. chg, 'token', token)
local largest = redis.call('ZREVRANGEBYSCORE', 'UCHG:' .. chg, '+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local draw = tonumber(largest or 0) * tonumber(ARGV[7])
local execution = redis.call('ZRANGEBYSCORE', 'UCHG:' .. chg, draw, '+inf', 'LIMIT', 0, 1)[1]
if not execution then return due end
local uri = redis.call('ZRANGE', 'UEID:' .. chg .. ':' .. execution, 0, 0)[1]
return {due, token, chg, execution, uri}
