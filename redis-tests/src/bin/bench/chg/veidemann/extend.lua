-- A new deadline when the URI goes to a harvester. KEYS: chg_busy; ARGV: group, deadline.
return redis.call('ZADD', KEYS[1], 'XX', 'CH', ARGV[2], ARGV[1])
