//! The steps of the queue, which are scripts: each of them is done as a whole, or not at all.

/// Queues those that are neither imported nor queued. Gives how many were new, imported, queued.
pub(super) const ENQUEUE: &str = r"
local q, qset, done, crawls, runs, counts, failed, later = unpack(KEYS)
local names, run, laters = ARGV[1], ARGV[2], ARGV[3]
-- A key of another type is an error before anything is written.
redis.call('LLEN', q)
redis.call('LLEN', crawls)
redis.call('HLEN', runs)
redis.call('HLEN', counts)
redis.call('SCARD', failed)
redis.call('SCARD', later)
for i = 5, #ARGV, 3 do redis.call('LLEN', names .. ARGV[i]) end
local begins = redis.call('SCARD', qset) == 0
local new, was_done, underway = 0, 0, 0
for i = 4, #ARGV, 3 do
  local name, crawl, item = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('SISMEMBER', done, name) == 1 then
    was_done = was_done + 1
  elseif redis.call('SREM', failed, name) + redis.call('SADD', qset, name) == 0 then
    underway = underway + 1
  else
    new = new + 1
    redis.call('HSETNX', runs, name, run)
    redis.call('DEL', laters .. name)
    redis.call('SREM', later, name)
    redis.call('LPUSH', q, item)
    -- The first of its crawl: looking for it in the list would take the longer, the more crawls there are.
    if redis.call('RPUSH', names .. crawl, name) == 1 then redis.call('RPUSH', crawls, crawl) end
  end
end
if begins and new > 0 then redis.call('HSET', counts, 'updateProgress', '0') end
return {new, was_done, underway}";

/// Notes the crawls of packages that other clients queued: those without a name of their sequence.
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

/// Entries that are in the index leave the queue. Returns how many were there.
pub(super) const DROP: &str = r"
local q, qset = unpack(KEYS)
local dropped = 0
for i = 1, #ARGV, 2 do
  dropped = dropped + redis.call('LREM', q, 1, ARGV[i + 1])
  redis.call('SREM', qset, ARGV[i])
end
return dropped";

/// What names the guard of an entry: nothing, of one without a name.
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

/// Orphans first; and a call that is sent twice gives the same package twice. Browsertrix's importer takes packages out
/// of the queue and keeps a guard `1` beside them, which outlasts its work: what is in `src:d` then is imported.
pub(super) const TAKE: &str = concat!(
    name_of!(),
    r"
local q, pending, done = unpack(KEYS)
local guards, token, lease = ARGV[1], ARGV[2], ARGV[3]
local others = 0
local function is_free(item)
  local name = name_of(item)
  local holder = redis.call('GET', guards .. name)
  if holder == '1' and redis.call('SISMEMBER', done, name) == 1 then
    redis.call('LREM', pending, 1, item)
  elseif holder then
    others = others + 1
  end
  return not holder, holder
end
local item
for _, other in ipairs(redis.call('LRANGE', pending, 0, -1)) do
  local free, holder = is_free(other)
  if holder == token then return other end
  if free and not item then item = other end
end
while not item do
  item = redis.call('RPOPLPUSH', q, pending)
  if not item then return others end
  if not is_free(item) then item = nil end
end
redis.call('SET', guards .. name_of(item), token, 'PX', lease)
return item"
);

/// An entry that was taken and cannot be read leaves the queue. Gives its name.
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

/// One of them, if it is in the queue.
pub(super) const TAKE_THIS: &str = r"
local q, pending, guard = unpack(KEYS)
local item, token, lease = unpack(ARGV)
if redis.call('GET', guard) == token then return 1 end
if redis.call('LREM', q, 1, item) == 0 then return 0 end
redis.call('LPUSH', pending, item)
redis.call('SET', guard, token, 'PX', lease)
return 1";

/// The guard lasts for another while, if it is still held.
pub(super) const RENEW: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

/// What names the sequence of a package, whose crawl is one to commit. Other clients queue packages without either.
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

/// Gives 0 when another worker has it. A call that is sent twice gives 1 twice.
pub(super) const LEAVE: &str = r"
local guard, pending, into, runs, noted, counts, qset, failed, q, pq, r, pr = unpack(KEYS)
local token, item, name, keep, forget, fails = unpack(ARGV)
local holder = redis.call('GET', guard)
if holder ~= token then
  if not holder and not redis.call('LPOS', pending, item) then return 1 end
  return 0
end
redis.call('LREM', pending, 1, item)
if keep == '1' then redis.call('LPUSH', into, item) end
if forget == '1' then
  redis.call('HDEL', runs, name)
  redis.call('HDEL', noted, name)
end
-- It is in no queue any more, and the next import is to try it again, even if this one comes to no end.
if fails == '1' then redis.call('SADD', failed, name) end
redis.call('DEL', guard)
local total = redis.call('SCARD', qset)
local left = redis.call('LLEN', q) + redis.call('LLEN', pq) + redis.call('LLEN', r) + redis.call('LLEN', pr)
if total > 0 then
  local part = math.max(0, total - left) / total
  redis.call('HSET', counts, 'updateProgress', string.format('%.4g', part))
end
return 1";

/// Some keys of the server that has the index.
pub(super) const SCAN: &str = "return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 5000)";

/// The end, if nothing is queued. Names that failed stay if the list of their crawl has a place for them: it tells crawls
/// with such a place from crawls that run.
pub(super) const CLOSE: &str = r"
local q, pq, r, pr, qset, failed, crawls, counts, stamp = unpack(KEYS)
local names, lists, now = unpack(ARGV)
for _, queue in ipairs({q, pq, r, pr}) do
  if redis.call('LLEN', queue) > 0 then return 0 end
end
local have_failed = {}
for _, name in ipairs(redis.call('SMEMBERS', failed)) do have_failed[name] = true end
redis.call('DEL', failed)
for _, crawl in ipairs(redis.call('LRANGE', crawls, 0, -1)) do
  if next(have_failed) then
    for _, item in ipairs(redis.call('LRANGE', lists .. crawl .. ':wacz', 0, -1)) do
      local is_json, entry = pcall(cjson.decode, item)
      local name = is_json and type(entry) == 'table' and entry.filename
      if have_failed[name] and not entry.size then redis.call('SADD', failed, name) end
    end
  end
  redis.call('DEL', names .. crawl)
end
redis.call('DEL', qset, crawls)
redis.call('HSET', counts, 'updateProgress', '1')
redis.call('SET', stamp, now)
return 1";

/// Records of one batch, counted once; revisits without an original are put aside.
pub(super) const COUNT: &str = r"
local guard, noted, later, laters, done, uncommitted, counts = unpack(KEYS)
local token, name, number, aside, prefix, crawl, size, urls = unpack(ARGV, 1, 8)
if redis.call('GET', guard) ~= token then return 0 end
if tonumber(redis.call('HGET', noted, name) or '0') >= tonumber(number) then return 1 end
-- A revisit would begin the crawl anew.
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

/// Revisits that had been put aside, counted once: only if they are still there as they were read.
pub(super) const SETTLE: &str = r"
local later, laters, crawls = unpack(KEYS)
local name, number, was, aside, prefix, crawl = unpack(ARGV, 1, 6)
if redis.call('HGET', laters, number) ~= was then return 0 end
if #ARGV > 6 then
  redis.call('DEDUPE.REVISIT', prefix, crawl, 'REF', name, unpack(ARGV, 7))
  if not redis.call('LPOS', crawls, crawl) then redis.call('RPUSH', crawls, crawl) end
end
if aside ~= '' then
  redis.call('HSET', laters, number, aside)
elseif redis.call('HDEL', laters, number) == 1 and redis.call('EXISTS', laters) == 0 then
  redis.call('SREM', later, name)
end
return 1";

/// A committed crawl is counted as removed, once.
pub(super) const SET_ASIDE: &str = r"
local canceled, counts = unpack(KEYS)
local crawl, size = unpack(ARGV)
redis.call('HLEN', counts)
if redis.call('SADD', canceled, crawl) == 0 then return 0 end
redis.call('HINCRBY', counts, 'removedCrawls', 1)
redis.call('HINCRBY', counts, 'removedCrawlSize', size)
return 1";
