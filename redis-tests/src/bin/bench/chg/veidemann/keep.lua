-- Adds a URI: stores it in the queue. KEYS: the execution's queue in this group, executions of the group;
-- ARGV: depth:time:uri, weight, execution.
redis.call('ZADD', KEYS[1], 0, ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
