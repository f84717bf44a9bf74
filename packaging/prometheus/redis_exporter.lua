-- Exports the fields of INFO crawlspace with redis_exporter: redis_exporter --script redis_exporter.lua
-- gives redis_script_values{key="crawlspace_lookups"} and so on. For metrics of each index and frontier, use
-- crawlspace exporter.
local figures = {}
for name, value in redis.call('INFO', 'crawlspace'):gmatch('(crawlspace_[%w_]+):(%d+)\r\n') do
  figures[#figures + 1] = name
  figures[#figures + 1] = value
end
return figures
