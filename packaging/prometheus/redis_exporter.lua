-- What INFO crawlspace counts, for those who have redis_exporter already: redis_exporter --script redis_exporter.lua
-- gives redis_script_values{key="crawlspace_lookups"} and so on. Figures of each index and frontier: crawlspace exporter.
local figures = {}
for name, value in redis.call('INFO', 'crawlspace'):gmatch('(crawlspace_[%w_]+):(%d+)\r\n') do
  figures[#figures + 1] = name
  figures[#figures + 1] = value
end
return figures
