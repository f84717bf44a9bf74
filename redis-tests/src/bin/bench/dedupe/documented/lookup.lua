-- Performs the two documented look-ups. ARGV[1]: hash. Returns the crawl and its record.
local crawl = redis.call('HGET', 'allhashes', ARGV[1])
if not crawl then return false end
return {crawl, redis.call('HGET', 'h:' .. crawl, ARGV[1])}
