-- Moves the due groups to chg_ready, as the queue worker does. KEYS: chg_wait or chg_busy, chg_ready; ARGV:
-- now.
local due = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1])
for _, chg in ipairs(due) do
  redis.call('ZREM', KEYS[1], chg)
  redis.call('RPUSH', KEYS[2], chg)
end
return #due
