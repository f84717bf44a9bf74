-- Releases a group. KEYS: group, chg_busy, chg_wait, chg_ready; ARGV: group, token, pause in ms.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] then return redis.error_reply('STALE') end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[1], 'token')
local due = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'n', string.format('%.0f', due))
if due > now then redis.call('ZADD', KEYS[3], due, ARGV[1]) else redis.call('RPUSH', KEYS[4], ARGV[1]) end
return due
