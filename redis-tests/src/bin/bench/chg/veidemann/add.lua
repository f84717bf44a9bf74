-- Adds a URI: updates the group and the counts. KEYS: group, chg_wait, EIDC, QCT; ARGV: due time, execution,
-- group.
local new = redis.call('HSETNX', KEYS[1], 'n', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'c', 1)
redis.call('HINCRBY', KEYS[3], ARGV[2], 1)
redis.call('INCR', KEYS[4])
if new > 0 then redis.call('ZADD', KEYS[2], ARGV[1], ARGV[3]) end
