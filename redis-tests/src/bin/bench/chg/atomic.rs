//! The other peer: the seed's keys worked by one atomic Lua script for each step, as a careful user
//! would write them today: the server's clock, first in first out, a token.

/// `KEYS`: group, `chg_wait`, `EIDC`, `QCT`; `ARGV`: at, execution, group, now (given, as it is to
/// ours here, so that due times can lie in the past).
pub const ADD: &str = "\
local at = math.max(tonumber(ARGV[1]), tonumber(ARGV[4]))
local new = redis.call('HSETNX', KEYS[1], 'n', string.format('%.0f', at))
local c = redis.call('HINCRBY', KEYS[1], 'c', 1)
redis.call('HINCRBY', KEYS[3], ARGV[2], 1)
redis.call('INCR', KEYS[4])
if new == 1 then redis.call('ZADD', KEYS[2], at, ARGV[3]) end
return c";

/// Takes the head of `chg_ready`, or else the first of `chg_wait` that is due. `KEYS`: `chg_ready`,
/// `chg_wait`, `chg_busy`, `chg_token`; `ARGV`: prefix of groups, lease in ms.
pub const NEXT: &str = "\
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
return {chg, token, deadline, fields[1], fields[2]}";

/// `KEYS`: group, `chg_busy`, `chg_wait`, `chg_ready`; `ARGV`: group, token, pause in ms.
pub const RELEASE: &str = "\
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[2] then return redis.error_reply('STALE') end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[1], 'token')
local due = now + tonumber(ARGV[3])
redis.call('HSET', KEYS[1], 'n', string.format('%.0f', due))
if due > now then redis.call('ZADD', KEYS[3], due, ARGV[1]) else redis.call('RPUSH', KEYS[4], ARGV[1]) end
return due";
