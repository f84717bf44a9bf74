-- Commits a crawl. ARGV[1]: crawl. Returns the numbers of new and of already known hashes.
local crawl = ARGV[1]
local hashes = redis.call('HKEYS', 'h:' .. crawl)
local new = 0
for i = 1, #hashes do new = new + redis.call('HSETNX', 'allhashes', hashes[i], crawl) end
local counts = redis.call('HGETALL', 'h:' .. crawl .. ':counts')
for i = 1, #counts, 2 do redis.call('HINCRBY', 'allcounts', counts[i], counts[i + 1]) end
redis.call('SMOVE', 'uncommittedcrawls', 'allcrawls', crawl)
return {new, #hashes - new}
