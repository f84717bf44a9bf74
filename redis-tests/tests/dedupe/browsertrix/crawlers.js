// Sends the commands and pipelines of Browsertrix Crawler 1.14 and its importer with ioredis, in the same
// order.
//
// Reads steps, one JSON object per line, and prints `done` or `cut` after each step. Each crawl has one
// crawler. If a step has the member `cut`, the crawler dies after this number of replies.
//
// If ORACLE is the port of a second server, it gets the same commands, and all replies must be equal.

const assert = require("node:assert");
const readline = require("node:readline");
const Redis = require("ioredis");

const connect = (port) => new Redis({ host: "127.0.0.1", port: Number(port) });
const ours = connect(process.env.PORT);
const oracle = process.env.ORACLE && connect(process.env.ORACLE);
const redis = oracle ? both(ours, oracle) : ours;

/** Sends each command on both connections, and throws an error if the replies differ. */
function both(one, other) {
  const proxy = new Proxy(one, {
    get: (_, name) => (...words) => {
      // Cursors differ.
      if (name === "hscan") return one.hscan(...words);
      const sent = [one[name](...words), other[name](...words)];
      if (name === "pipeline") return both(...sent);
      if (sent[0] === one) return proxy; // a command of a pipeline
      return Promise.all(sent).then(([reply, right]) => {
        const sorted = (list) => (["smembers", "sdiff"].includes(name) ? [...list].sort() : list);
        assert.deepStrictEqual(sorted(reply), sorted(right), [name, ...words].join(" "));
        return reply;
      });
    },
  });
  return proxy;
}

/** Reads whole hashes from the first server, and compares them with those of the oracle. */
async function compare(keys) {
  for (const key of keys) {
    await redis.hlen(key);
    const found = {};
    let cursor = "0";
    do {
      const [next, fields] = await ours.hscan(key, cursor, "COUNT", 7);
      for (let i = 0; i < fields.length; i += 2) found[fields[i]] = fields[i + 1];
      cursor = next;
    } while (cursor !== "0");
    assert.deepStrictEqual(found, { ...(await oracle.hgetall(key)) }, key);
  }
}

class Death extends Error {}
let left = Infinity;

/** Waits for a reply. Throws `Death` if the program has to die before it reads the reply. */
async function reply(command) {
  const value = await command;
  if (--left < 0) throw new Death();
  return value;
}

async function send(pipeline) {
  const replies = await reply(pipeline.exec());
  for (const [error] of replies) if (error) throw error;
}

const running = new Map();
const records = (crawl) => `h:${crawl}`;
const counts = (crawl) => `h:${crawl}:counts`;
const waczs = (crawl) => `c:${crawl}:wacz`;

async function open({ crawl, file }) {
  const length = await reply(redis.rpush(waczs(crawl), JSON.stringify({ filename: file })));
  return { index: length - 1, file };
}

async function start({ crawl, file, concurrent }) {
  const wacz = await open({ crawl, file });
  running.set(crawl, { ...wacz, concurrent });
  await reply(redis.sadd(concurrent ? "allcrawls" : "uncommittedcrawls", crawl));
}

async function find(crawl, hash) {
  const owner = (await reply(redis.hget("alldupes", hash))) || crawl;
  const value = await reply(redis.hget(records(owner), hash));
  return value ? { owner, size: Number(value.split(" ")[3]) } : null;
}

/** Records a response. A response with a known payload is written as a revisit. */
async function response({ crawl, hash, url, date, size, revisit }) {
  const { index, concurrent } = running.get(crawl);
  const known = await find(crawl, hash);
  if (known && known.owner !== crawl) await reply(redis.lindex(waczs(known.owner), index));
  const pipeline = redis.pipeline();
  const sums = concurrent ? [counts(crawl), "allcounts"] : [counts(crawl)];
  if (!known) {
    pipeline.hsetnx(records(crawl), hash, `${index} ${date} ${url} ${size}`);
    if (concurrent) pipeline.hsetnx("alldupes", hash, crawl);
  }
  for (const key of sums) {
    pipeline.hincrby(key, "totalUrls", 1);
    if (!known) continue;
    if (known.size > revisit) pipeline.hincrby(key, "conservedSize", known.size - revisit);
    pipeline.hincrby(key, "dupeUrls", 1);
  }
  await send(pipeline);
}

/** Finishes a WACZ file, and begins the next file if `next` names it. */
async function close({ crawl, size, next }) {
  const crawler = running.get(crawl);
  const entry = { filename: crawler.file, hash: "00", size };
  const pipeline = redis.pipeline();
  pipeline.lset(waczs(crawl), crawler.index, JSON.stringify(entry));
  pipeline.hincrby(counts(crawl), "totalCrawlSize", size);
  await send(pipeline);
  if (next) Object.assign(crawler, await open({ crawl, file: next }));
  else running.delete(crawl);
}

async function merge(crawl, from) {
  let cursor = "0";
  do {
    const [next, found] = await reply(redis.hscan(records(crawl), cursor, "COUNT", 10));
    for (let i = 0; i < found.length; i += 2) await reply(redis.hsetnx("alldupes", found[i], crawl));
    cursor = next;
  } while (cursor !== "0");
  const files = await reply(redis.llen(waczs(crawl)));
  for (let i = 0; i < files; i++) {
    const { filename } = JSON.parse(await reply(redis.lindex(waczs(crawl), i)));
    await reply(redis.sadd("src:d", filename));
  }
  // The tests do not let the program die after this point, because they could not tell which sums it had
  // added.
  left = Infinity;
  await reply(redis.smove(from, "allcrawls", crawl));
  const all = await reply(redis.hgetall(counts(crawl)));
  for (const [name, n] of Object.entries(all)) await reply(redis.hincrby("allcounts", name, Number(n)));
}

async function commit({ crawl }) {
  if (await reply(redis.sismember("allcrawls", crawl))) return;
  await merge(crawl, "uncommittedcrawls");
  running.delete(crawl);
}

async function cancel({ crawl }) {
  running.delete(crawl);
  if (!(await reply(redis.sismember("allcrawls", crawl)))) {
    await reply(redis.srem("uncommittedcrawls", crawl));
    await reply(redis.del(records(crawl), waczs(crawl), counts(crawl)));
    return;
  }
  await reply(redis.smove("allcrawls", "canceledcrawls", crawl));
  const canceled = await reply(redis.smembers("canceledcrawls"));
  let total = 0;
  for (const other of canceled) total += Number((await reply(redis.hget(counts(other), "totalCrawlSize"))) || 0);
  await reply(redis.hset("allcounts", "removedCrawls", canceled.length, "removedCrawlSize", total));
}

/** Adds the bytes saved by revisits that were recorded before their original. */
async function settle(hash, size) {
  const numbers = await reply(redis.hgetall(`rev:${hash}:c`));
  if (Object.keys(numbers).length === 0) return;
  const bytes = await reply(redis.hgetall(`rev:${hash}:s`));
  const pipeline = redis.pipeline();
  for (const [crawl, n] of Object.entries(numbers)) {
    const saved = Number(n) * size - Number(bytes[crawl]);
    for (const key of saved > 0 ? [counts(crawl), "allcounts"] : []) pipeline.hincrby(key, "conservedSize", saved);
  }
  pipeline.del(`rev:${hash}:c`, `rev:${hash}:s`);
  await send(pipeline);
}

/** Imports a package that a manifest lists. Lines with a `url` are responses, other lines are revisits. */
async function take({ crawl, file, size, lines }) {
  const kept = `noremove:${Date.now()}`;
  if (await reply(redis.sismember("src:d", file))) return;
  const entry = JSON.stringify({ name: file, url: file, crawlId: crawl });
  await reply(redis.sadd("src:qset", file));
  await reply(redis.lpush("src:q", entry));
  await reply(redis.sadd(kept, crawl));
  await reply(redis.lmove("src:q", "pending:q", "RIGHT", "LEFT"));
  const begin = redis.pipeline().lrem("pending:q", 1, entry).srem("src:qset", file);
  await send(begin.setex(`pending:q:${file}`, 300, "1"));
  await reply(redis.hset("allcounts", "updateProgress", 0.5));
  const sums = [counts(crawl), "allcounts"];
  for (const { hash, url, date, size } of lines) {
    const bare = hash.split(":").at(-1);
    const pipeline = redis.pipeline();
    for (const key of sums) pipeline.hincrby(key, "totalUrls", 1);
    if (url) {
      await reply(redis.hsetnx("alldupes", bare, crawl));
      pipeline.hsetnx(records(crawl), bare, `0 ${date} ${url} ${size}`);
      await send(pipeline);
      await settle(hash, size);
      continue;
    }
    const known = await find(crawl, bare);
    for (const key of sums) {
      pipeline.hincrby(key, "dupeUrls", 1);
      if (known && known.size > size) pipeline.hincrby(key, "conservedSize", known.size - size);
    }
    if (!known) pipeline.hincrby(`rev:${hash}:s`, crawl, size).hincrby(`rev:${hash}:c`, crawl, 1);
    await send(pipeline);
  }
  const end = redis.pipeline().sadd("src:d", file).sadd("allcrawls", crawl);
  end.rpush(waczs(crawl), JSON.stringify({ filename: file, size, hash: "00" }));
  for (const key of sums) end.hincrby(key, "totalCrawlSize", size);
  await send(end);
  await reply(redis.del(kept, `pending:q:${file}`));
  await reply(redis.hset("allcounts", "updateProgress", 1));
  await reply(redis.set("last_update_ts", new Date().toISOString()));
}

async function purge({ kept }) {
  const set = `noremove:${Date.now()}`;
  if (kept.length) await reply(redis.sadd(set, kept));
  await reply(redis.sdiff("allcrawls", set));
  await reply(redis.rename("allcrawls", "to-remove-crawls"));
  await reply(redis.del("alldupes"));
  await reply(redis.del("allcounts"));
  for (const crawl of kept) await merge(crawl, "to-remove-crawls");
  for (let crawl; (crawl = await reply(redis.spop("to-remove-crawls"))); ) {
    for (let json; (json = await reply(redis.lpop(waczs(crawl)))); ) {
      await reply(redis.srem("src:d", JSON.parse(json).filename));
    }
    await reply(redis.del(records(crawl), waczs(crawl), counts(crawl)));
  }
  await reply(redis.del(set));
}

const steps = { start, response, close, commit, cancel, take, purge };

async function main() {
  await redis.ping();
  console.log("ready");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const step = JSON.parse(line);
    left = step.cut ?? Infinity;
    try {
      let said = "done";
      await steps[step.step](step).catch((error) => {
        if (!(error instanceof Death)) throw error;
        said = "cut";
      });
      if (oracle) await compare(["alldupes", records(step.crawl)]);
      console.log(said);
    } catch (error) {
      console.log(`failed: ${error.message.replaceAll("\n", " ")}`);
      throw error;
    }
  }
  redis.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
