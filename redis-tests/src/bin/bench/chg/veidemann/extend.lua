-- Extends the deadline when the URI is passed to a harvester. KEYS: chg_busy; ARGV: group, deadline.
return redis.call('ZADD', KEYS[1], 'XX', 'CH', ARGV[2], ARGV[1])
