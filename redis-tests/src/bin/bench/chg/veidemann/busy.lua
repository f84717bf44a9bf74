-- Marks a group as busy, and returns its fields. KEYS: chg_busy, group; ARGV: group, deadline.
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return redis.call('HGETALL', KEYS[2])
