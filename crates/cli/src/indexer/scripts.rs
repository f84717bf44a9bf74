//! The steps of the queue as Lua scripts: each step is atomic.

/// Queues packages that are neither imported nor queued. Returns how many were new, imported, and queued. The name of
/// the sequence of a package that is the only one of a new crawl gets an ending.
pub(super) const ENQUEUE: &str = r"
local q, qset, done, crawls, runs, counts, failed, later = unpack(KEYS)
local names, run, laters, alone = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
-- A key of another type is an error before anything is written.
redis.call('LLEN', q)
redis.call('LLEN', crawls)
redis.call('HLEN', runs)
redis.call('HLEN', counts)
local have_failed = redis.call('SCARD', failed) > 0
local wait = redis.call('SCARD', later) > 0
local listed = {}
for i = 5, #ARGV, 3 do listed[#listed + 1] = ARGV[i] end
if #listed == 0 then return {0, 0, 0} end
local is_done = redis.call('SMISMEMBER', done, unpack(listed))
local is_queued = redis.call('SMISMEMBER', qset, unpack(listed))
local begun = redis.call('HMGET', runs, unpack(listed))
local begins = redis.call('SCARD', qset) == 0
local was_done, underway = 0, 0
local new, items, new_runs, some_crawls, new_names, old, seen, is_begun = {}, {}, {}, {}, {}, {}, {}, {}
for i, name in ipairs(listed) do
  local crawl, item = ARGV[i * 3 + 3], ARGV[i * 3 + 4]
  if is_done[i] == 1 then
    was_done = was_done + 1
  elseif seen[name] or (is_queued[i] == 1 and not (have_failed and redis.call('SREM', failed, name) == 1)) then
    underway = underway + 1
  else
    seen[name] = true
    if have_failed then redis.call('SREM', failed, name) end
    new[#new + 1] = name
    items[#items + 1] = item
    is_begun[name] = begun[i]
    if wait then old[#old + 1] = laters .. name end
    if not new_names[crawl] then
      new_names[crawl] = {}
      some_crawls[#some_crawls + 1] = crawl
    end
    table.insert(new_names[crawl], name)
  end
end
if #new > 0 then
  -- The first name of a crawl shows that the crawl is new. Searching the list of crawls would take O(N).
  local new_crawls = {}
  for _, crawl in ipairs(some_crawls) do
    local some = new_names[crawl]
    local is_new = redis.call('RPUSH', names .. crawl, unpack(some)) == #some
    if is_new then new_crawls[#new_crawls + 1] = crawl end
    for _, name in ipairs(some) do
      if not is_begun[name] then
        new_runs[#new_runs + 1] = name
        new_runs[#new_runs + 1] = is_new and #some == 1 and run .. alone or run
      end
    end
  end
  redis.call('SADD', qset, unpack(new))
  if #new_runs > 0 then redis.call('HSET', runs, unpack(new_runs)) end
  if wait then
    redis.call('DEL', unpack(old))
    redis.call('SREM', later, unpack(new))
  end
  redis.call('LPUSH', q, unpack(items))
  if #new_crawls > 0 then redis.call('RPUSH', crawls, unpack(new_crawls)) end
  if begins then redis.call('HSET', counts, 'updateProgress', '0') end
end
return {#new, was_done, underway}";

/// Records the crawls of packages that other clients queued; the sequences of these packages have no names.
pub(super) const ADOPT: &str = r"
local crawls, runs = unpack(KEYS)
local names, run = ARGV[1], ARGV[2]
for i = 3, #ARGV, 2 do
  local name, crawl = ARGV[i], ARGV[i + 1]
  if redis.call('HSETNX', runs, name, run) == 1 then
    if redis.call('RPUSH', names .. crawl, name) == 1 then redis.call('RPUSH', crawls, crawl) end
  end
end
return 0";

/// Removes from the queue the entries that are in the index. Returns the number removed.
pub(super) const DROP: &str = r"
local q, qset = unpack(KEYS)
local dropped = 0
for i = 1, #ARGV, 2 do
  dropped = dropped + redis.call('LREM', q, 1, ARGV[i + 1])
  redis.call('SREM', qset, ARGV[i])
end
return dropped";

/// Lua function that returns the name of an entry, which is empty for an entry without one.
macro_rules! name_of {
    () => {
        r"
local function name_of(item)
  local is_json, entry = pcall(cjson.decode, item)
  local name = is_json and type(entry) == 'table' and entry.name
  return type(name) == 'string' and name or ''
end"
    };
}

/// Takes packages, abandoned ones first; a call that is sent twice returns the same packages twice. Browsertrix's
/// importer removes a package from the queue and sets a guard `1`, which exists longer than its work takes. If such a
/// package is in `src:d`, it is imported. Returns each package with the name of its sequence, if known; or the number of
/// packages held by others.
pub(super) const TAKE: &str = concat!(
    name_of!(),
    r"
local q, pending, done, runs = unpack(KEYS)
local guards, token, lease = unpack(ARGV, 1, 3)
local most, share = tonumber(ARGV[4]), tonumber(ARGV[5])
local others, mine, free, taken = 0, {}, {}, {}
-- Entries without a name have one guard together.
local has_nameless = false
local function look(items)
  local held = {}
  for from = 1, #items, 1000 do
    local keys = {}
    for i = from, math.min(from + 999, #items) do keys[#keys + 1] = guards .. name_of(items[i]) end
    for i, holder in ipairs(redis.call('MGET', unpack(keys))) do held[from + i - 1] = holder end
  end
  for i, item in ipairs(items) do
    local holder = held[i]
    if not holder or holder == token then
      local is_nameless = name_of(item) == ''
      local list = holder and mine or free
      if not (is_nameless and has_nameless) then list[#list + 1] = item end
      has_nameless = has_nameless or is_nameless
    elseif holder == '1' and redis.call('SISMEMBER', done, name_of(item)) == 1 then
      redis.call('LREM', pending, 1, item)
    else
      others = others + 1
    end
  end
end
look(redis.call('LRANGE', pending, 0, -1))
if #mine > 0 then
  free = mine
elseif #free == 0 then
  most = math.min(most, math.max(1, math.floor(redis.call('LLEN', q) / share)))
  while #free < most do
    local items = redis.call('RPOP', q, most - #free)
    if not items then break end
    redis.call('LPUSH', pending, unpack(items))
    look(items)
  end
end
if #free == 0 then return others end
local listed = {}
for i = 1, math.min(#free, most) do listed[i] = name_of(free[i]) end
local begun = redis.call('HMGET', runs, unpack(listed))
for i, name in ipairs(listed) do
  redis.call('SET', guards .. name, token, 'PX', lease)
  taken[i] = {free[i], begun[i] or ''}
end
return taken"
);

/// Removes from the queue a taken entry that cannot be read. Returns its name.
pub(super) const SKIP: &str = concat!(
    name_of!(),
    r"
local pending, failed = unpack(KEYS)
local guards, token, item = unpack(ARGV)
local name = name_of(item)
if redis.call('GET', guards .. name) == token then
  redis.call('LREM', pending, 1, item)
  redis.call('DEL', guards .. name)
  if name ~= '' then redis.call('SADD', failed, name) end
end
return name"
);

/// Takes one package, if it is in the queue.
pub(super) const TAKE_THIS: &str = r"
local q, pending, guard = unpack(KEYS)
local item, token, lease = unpack(ARGV)
if redis.call('GET', guard) == token then return 1 end
if redis.call('LREM', q, 1, item) == 0 then return 0 end
redis.call('LPUSH', pending, item)
redis.call('SET', guard, token, 'PX', lease)
return 1";

/// Extends the guard's lease, if the guard is still held.
pub(super) const RENEW: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

/// Returns the name of a package's sequence, and records that its crawl must be committed. Other
/// clients queue packages without recording either.
pub(super) const RUN: &str = r"
local guard, runs, crawls, names = unpack(KEYS)
local token, name, crawl = unpack(ARGV)
if redis.call('GET', guard) ~= token then return false end
if not redis.call('LPOS', names, name) then
  redis.call('RPUSH', names, name)
  if not redis.call('LPOS', crawls, crawl) then redis.call('RPUSH', crawls, crawl) end
end
redis.call('HSETNX', runs, name, token)
return redis.call('HGET', runs, name)";

/// Lua code that counts the remaining packages and returns the import's progress.
macro_rules! progress {
    () => {
        r"
local function progress(counts, qset, q, pq, r, pr)
  local total = redis.call('SCARD', qset)
  local left = redis.call('LLEN', q) + redis.call('LLEN', pq) + redis.call('LLEN', r) + redis.call('LLEN', pr)
  if total > 0 then
    local part = math.max(0, total - left) / total
    redis.call('HSET', counts, 'updateProgress', string.format('%.4g', part))
  end
  return left, total
end"
    };
}

/// Lua function that removes entries from a list. Returns a table with those that were in it. The entries are usually the
/// last ones of the list, so the function replaces the end of the list instead of removing them one by one.
macro_rules! take_out {
    () => {
        r"
local function take_out(list, items)
  local wanted, found, kept = {}, {}, {}
  for _, item in ipairs(items) do wanted[item] = true end
  if #items > 3 then
    local tail = redis.call('LRANGE', list, -2 * #items, -1)
    for i = #tail, 1, -1 do
      local item = tail[i]
      if wanted[item] and not found[item] then found[item] = true else kept[#kept + 1] = item end
    end
    if next(found) then
      redis.call('LTRIM', list, 0, -#tail - 1)
      local last = {}
      for i = #kept, 1, -1 do last[#last + 1] = kept[i] end
      if #last > 0 then redis.call('RPUSH', list, unpack(last)) end
    end
  end
  for _, item in ipairs(items) do
    if not found[item] then found[item] = redis.call('LREM', list, -1, item) == 1 or nil end
  end
  return found
end"
    };
}

/// Finishes packages. Returns the number of remaining packages, the total, and for each package 0 if another worker
/// holds it. A call that is sent twice returns 1 twice.
pub(super) const LEAVE: &str = concat!(
    progress!(),
    take_out!(),
    r"
local pending, into, runs, noted, counts, qset, failed, q, pq, r, pr = unpack(KEYS)
local guards, token = ARGV[1], ARGV[2]
local held, own, later, whole, fails, free = {}, {}, {}, {}, {}, {}
for i = 3, #ARGV, 5 do held[#held + 1] = guards .. ARGV[i] end
local out = {}
for i, holder in ipairs(redis.call('MGET', unpack(held))) do
  local name, item, keep, forget, fail = unpack(ARGV, i * 5 - 2, i * 5 + 2)
  if holder ~= token then
    out[i + 2] = (not holder and not redis.call('LPOS', pending, item)) and 1 or 0
  else
    out[i + 2] = 1
    own[#own + 1] = item
    if keep == '1' then later[#later + 1] = item end
    if forget == '1' then whole[#whole + 1] = name end
    -- It is in no queue any more, and the next import is to try it again, even if this one comes to no end.
    if fail == '1' then fails[#fails + 1] = name end
    free[#free + 1] = held[i]
  end
end
take_out(pending, own)
if #later > 0 then redis.call('LPUSH', into, unpack(later)) end
if #whole > 0 then
  redis.call('HDEL', runs, unpack(whole))
  redis.call('HDEL', noted, unpack(whole))
end
if #fails > 0 then redis.call('SADD', failed, unpack(fails)) end
if #free > 0 then redis.call('DEL', unpack(free)) end
out[1], out[2] = progress(counts, qset, q, pq, r, pr)
return out"
);

/// Scans some keys of the server that holds the index.
pub(super) const SCAN: &str = "return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 5000)";

/// Closes the import, if nothing is queued. Keeps the names of failed packages that are in the lists of their crawls,
/// because these names distinguish such crawls from running ones.
pub(super) const CLOSE: &str = r"
local q, pq, r, pr, qset, failed, crawls, counts, stamp = unpack(KEYS)
local names, lists, now = unpack(ARGV)
for _, queue in ipairs({q, pq, r, pr}) do
  if redis.call('LLEN', queue) > 0 then return 0 end
end
local have_failed = {}
for _, name in ipairs(redis.call('SMEMBERS', failed)) do have_failed[name] = true end
redis.call('DEL', failed)
local keys = {}
for _, crawl in ipairs(redis.call('LRANGE', crawls, 0, -1)) do
  if next(have_failed) then
    for _, item in ipairs(redis.call('LRANGE', lists .. crawl .. ':wacz', 0, -1)) do
      local is_json, entry = pcall(cjson.decode, item)
      local name = is_json and type(entry) == 'table' and entry.filename
      if have_failed[name] and not entry.size then redis.call('SADD', failed, name) end
    end
  end
  keys[#keys + 1] = names .. crawl
  if #keys == 1000 then
    redis.call('DEL', unpack(keys))
    keys = {}
  end
end
redis.call('DEL', qset, crawls, unpack(keys))
redis.call('HSET', counts, 'updateProgress', '1')
redis.call('SET', stamp, now)
return 1";

/// Returns, for each package, the name of its sequence if its batch of this number is still to be counted. Otherwise
/// returns a number: 0 if the package is finished, 1 if the batch is counted, 2 if the crawl was removed.
pub(super) const READY: &str = r"
local runs, noted, done, uncommitted = unpack(KEYS)
local names, crawls = {}, {}
for i = 2, #ARGV, 2 do names[#names + 1], crawls[#crawls + 1] = ARGV[i], ARGV[i + 1] end
local begun = redis.call('HMGET', runs, unpack(names))
local counted = redis.call('HMGET', noted, unpack(names))
local is_done = redis.call('SMISMEMBER', done, unpack(names))
local is_open = redis.call('SMISMEMBER', uncommitted, unpack(crawls))
local out = {}
for i = 1, #names do
  if tonumber(counted[i] or '0') >= tonumber(ARGV[1]) then
    out[i] = 1
  -- A revisit would start the crawl again.
  elseif is_done[i] + is_open[i] == 0 then
    out[i] = 2
  else
    out[i] = begun[i] or 0
  end
end
return out";

/// Counts the records of one batch unless it was counted before, and stores its revisits without an original for later.
pub(super) const COUNT: &str = r"
local guard, noted, later, laters, done, uncommitted, counts = unpack(KEYS)
local token, name, number, aside, prefix, crawl, size, urls = unpack(ARGV, 1, 8)
if redis.call('GET', guard) ~= token then return 0 end
if tonumber(redis.call('HGET', noted, name) or '0') >= tonumber(number) then return 1 end
-- A revisit would start the crawl again.
if redis.call('SISMEMBER', done, name) == 0 and redis.call('SISMEMBER', uncommitted, crawl) == 0 then return 2 end
redis.call('HLEN', counts)
if #ARGV > 8 then redis.call('DEDUPE.REVISIT', prefix, crawl, 'REF', name, unpack(ARGV, 9)) end
if urls ~= '0' then
  redis.call('HINCRBY', counts, 'estimatedRedundantSize', size)
  redis.call('HINCRBY', counts, 'redundantUrls', urls)
end
if aside ~= '' then
  redis.call('HSET', laters, number, aside)
  redis.call('SADD', later, name)
end
redis.call('HSET', noted, name, number)
return 1";

/// Counts queued packages, each in one step. Returns the number of remaining packages, the total number of packages,
/// and for each given package 1 if all of it is counted and the package is done, or 0 if it stays in the queue and must
/// be counted on its own.
pub(super) const COUNT_ALL: &str = concat!(
    progress!(),
    take_out!(),
    r"
local runs, noted, done, uncommitted, counts, qset, q, pq, r, pr = unpack(KEYS)
local prefix = ARGV[1]
local names, crawls, at, i = {}, {}, {}, 2
while i <= #ARGV do
  names[#names + 1], crawls[#crawls + 1], at[#at + 1] = ARGV[i], ARGV[i + 1], i
  i = i + 6 + tonumber(ARGV[i + 5])
end
redis.call('HLEN', counts)
local was_noted = redis.call('HMGET', noted, unpack(names))
local is_done = redis.call('SMISMEMBER', done, unpack(names))
local is_open = redis.call('SMISMEMBER', uncommitted, unpack(crawls))
local out, whole, size, urls, items = {}, {}, 0, 0, {}
for n = 1, #names do
  -- A revisit would start a removed crawl again.
  if not was_noted[n] and is_done[n] + is_open[n] > 0 then items[#items + 1] = ARGV[at[n] + 2] end
end
local queued = take_out(r, items)
for n, name in ipairs(names) do
  local from = at[n]
  local item, words = ARGV[from + 2], tonumber(ARGV[from + 5])
  out[n + 2] = 0
  if queued[item] then
    local counted = words == 0 or redis.pcall('DEDUPE.REVISIT', prefix, crawls[n], 'REF', name,
      unpack(ARGV, from + 6, from + 5 + words))
    if type(counted) == 'table' and counted.err then
      redis.call('RPUSH', r, item)
    else
      out[n + 2] = 1
      whole[#whole + 1] = name
      size, urls = size + tonumber(ARGV[from + 3]), urls + tonumber(ARGV[from + 4])
    end
  end
end
if #whole > 0 then
  redis.call('HDEL', runs, unpack(whole))
  redis.call('HDEL', noted, unpack(whole))
end
if urls > 0 then
  redis.call('HINCRBY', counts, 'estimatedRedundantSize', string.format('%.0f', size))
  redis.call('HINCRBY', counts, 'redundantUrls', urls)
end
out[1], out[2] = progress(counts, qset, q, pq, r, pr)
return out"
);

/// Counts revisits that were set aside, unless they were changed after they were read. So each is
/// counted once. If they are or will be counted, records that their crawl must be committed.
pub(super) const SETTLE: &str = r"
local later, laters, crawls = unpack(KEYS)
local name, number, was, aside, prefix, crawl, counts = unpack(ARGV, 1, 7)
if redis.call('HGET', laters, number) ~= was then return 0 end
if #ARGV > 7 then redis.call('DEDUPE.REVISIT', prefix, crawl, 'REF', name, unpack(ARGV, 8)) end
if counts == '1' then
  if not redis.call('LPOS', crawls, crawl) then redis.call('RPUSH', crawls, crawl) end
end
if aside ~= '' then
  redis.call('HSET', laters, number, aside)
elseif redis.call('HDEL', laters, number) == 1 and redis.call('EXISTS', laters) == 0 then
  redis.call('SREM', later, name)
end
return 1";

/// Counts a committed crawl as removed, once.
pub(super) const SET_ASIDE: &str = r"
local canceled, counts = unpack(KEYS)
local crawl, size = unpack(ARGV)
redis.call('HLEN', counts)
if redis.call('SADD', canceled, crawl) == 0 then return 0 end
redis.call('HINCRBY', counts, 'removedCrawls', 1)
redis.call('HINCRBY', counts, 'removedCrawlSize', size)
return 1";
