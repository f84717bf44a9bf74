-- Adds a URI to a group. KEYS: group, chg_wait, EIDC, QCT; ARGV: due time, execution, group, current time.
-- The caller passes the current time, as it does to the module, so that due times can be in the past.
local at = math.max(tonumber(ARGV[1]), tonumber(ARGV[4]))
local new = redis.call('HSETNX', KEYS[1], 'n', string.format('%.0f', at))
local c = redis.call('HINCRBY', KEYS[1], 'c', 1)
redis.call('HINCRBY', KEYS[3], ARGV[2], 1)
redis.call('INCR', KEYS[4])
if new == 1 then redis.call('ZADD', KEYS[2], at, ARGV[3]) end
return c
