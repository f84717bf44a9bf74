local requests, at = {}, 0
init = function()
  for i, target in ipairs(targets) do requests[i] = wrk.format('GET', target) end
end
request = function()
  at = at % #requests + 1
  return requests[at]
end
