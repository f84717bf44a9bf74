-- Removes a completed URI. KEYS: the execution's queue in this group, executions of the group, group, EIDC,
-- QCT; ARGV: depth:time:uri, execution.
local gone = redis.call('ZREM', KEYS[1], ARGV[1])
if gone > 0 then
  redis.call('HINCRBY', KEYS[3], 'c', -1)
  if redis.call('HINCRBY', KEYS[4], ARGV[2], -1) <= 0 then redis.call('HDEL', KEYS[4], ARGV[2]) end
  redis.call('DECR', KEYS[5])
end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], ARGV[2]) end
return gone
