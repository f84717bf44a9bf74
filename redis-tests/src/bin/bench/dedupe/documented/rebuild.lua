-- Purges a crawl: deletes the merged index and builds it again. ARGV: the removed crawl, then the remaining
-- crawls in the order of their commits.
redis.call('DEL', 'h:' .. ARGV[1], 'h:' .. ARGV[1] .. ':counts', 'c:' .. ARGV[1] .. ':wacz')
redis.call('SREM', 'allcrawls', ARGV[1])
redis.call('DEL', 'allhashes', 'allcounts')
for c = 2, #ARGV do
  local crawl = ARGV[c]
  local hashes = redis.call('HKEYS', 'h:' .. crawl)
  for i = 1, #hashes do redis.call('HSETNX', 'allhashes', hashes[i], crawl) end
  local counts = redis.call('HGETALL', 'h:' .. crawl .. ':counts')
  for i = 1, #counts, 2 do redis.call('HINCRBY', 'allcounts', counts[i], counts[i + 1]) end
end
return #ARGV - 1
