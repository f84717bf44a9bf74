// Tests with ioredis that examples of single commands cannot cover.
//
// Prints `ok <scene>` after each scene. A scene prints a line to request an action of the test, and reads a
// line when the action is complete: `claims <n>` (wait until n clients wait for a claim), `waits <prefix in
// hex>` (wait until a client waits for a lease), `config <name> <value>`, or `begin|keys|finish <prefix in
// hex>` (move a slot).

const assert = require("node:assert");
const { createHash } = require("node:crypto");
const readline = require("node:readline");
const { connect, code, version } = require("./connect.js");

const RESP3 = process.env.PROTOCOL === "3";
const DATE = "20260319102015123";
const URL = "https://example.com/";

const r = connect();
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function please(...words) {
  console.log(words.join(" "));
  assert.strictEqual((await answers.next()).value, "done");
}

/** Sends a (blocking) command on a separate connection. Returns the reply or the error. */
function meanwhile(...words) {
  const other = connect();
  const reply = other.call(...words).catch((error) => error);
  return reply.finally(() => other.disconnect());
}

const digest = (n) => "sha256:" + createHash("sha256").update(String(n)).digest("hex");
const latin1 = (text) => Buffer.from(text, "latin1");

function add(prefix, crawl, ...numbers) {
  const records = numbers.flatMap((n) => [digest(n), 0, DATE, URL + n, 1000 + n]);
  return r.call("DEDUPE.ADD", prefix, crawl, ...records);
}

const record = (crawl, n) => [crawl, 0, DATE, URL + n, 1000 + n];

async function fails(client, ...words) {
  const reply = await client.call(...words).catch((error) => error);
  assert.strictEqual(reply?.name, "ReplyError", `${words} gave ${reply}`);
  return reply;
}

async function any_bytes_go_in_and_come_out() {
  const [p, hash, crawl] = ["{\xfe}\xff:", "opaque \xff\xfe\x80 digest", "cr\xffwl"].map(latin1);
  const [name, url, host, tag] = ["caf\xe9.wacz", "https://example.com/caf\xe9 \xff", "h\xffst", "t\xffg"].map(latin1);
  const tags = latin1("{\xfe}tags");
  assert.strictEqual(await r.call("DEDUPE.WACZOPEN", p, crawl, name), 0);
  assert.strictEqual(await r.call("DEDUPE.ADD", p, crawl, hash, 0, DATE, url, 5), 1);
  assert.deepStrictEqual(await r.call("DEDUPE.COMMIT", p, crawl), [1, 0]);
  const known = await r.callBuffer("DEDUPE.LOOKUP", p, "WITHWACZ", hash, digest(0));
  assert.deepStrictEqual(known, [[crawl, 0, Buffer.from(DATE), url, 5, name], null]);
  const crawls = await r.callBuffer("DEDUPE.CRAWLS", p);
  // ioredis decodes map keys as text. In RESP2, maps are arrays, so ids with any bytes are unchanged.
  if (RESP3) assert.strictEqual(Object.keys(crawls)[0], crawl.toString());
  else assert.deepStrictEqual(crawls[0], crawl);
  assert.deepStrictEqual(await r.call("CHG.ADDURI", p, crawl, host, 0, 0, url), [1]);
  const [lease] = await r.callBuffer("CHG.NEXT", p);
  assert.deepStrictEqual([lease[0], lease[5], lease[6]], [host, crawl, url]);
  assert.strictEqual(await r.call("TAGS.ADD", tags, "FILE", name, tag), 1);
  assert.deepStrictEqual(await r.callBuffer("TAGS.GET", tags, "FILE", name), [tag]);
}

async function a_pipeline_has_errors_in_their_place() {
  const p = "{pipeline}:";
  const batch = r.pipeline();
  for (let n = 0; n < 100; n++) batch.call("DEDUPE.ADD", p, "a", digest(n), 0, DATE, URL + n, 1000 + n);
  batch.call("DEDUPE.COMMIT", p, "nobody");
  batch.call("DEDUPE.LOOKUP", p, "CRAWL", "a", digest(7), digest(100));
  const replies = await batch.exec();
  assert.deepStrictEqual(replies.slice(0, 100), Array(100).fill([null, 1]));
  assert.strictEqual(code(replies[100][0]), "NOCRAWL");
  assert.deepStrictEqual(replies[101], [null, [record("a", 7), null]]);
}

async function a_transaction_waits_for_nothing() {
  const p = "{transaction}:";
  const replies = await r
    .multi()
    // ioredis knows the key of `EXISTS`, and sends the whole transaction to the node of this key.
    .exists(p)
    .call("DEDUPE.ADD", p, "a", digest(1), 0, DATE, URL + 1, 1001)
    .call("DEDUPE.COMMIT", p, "a")
    .call("DEDUPE.COMMIT", p, "nobody")
    .call("DEDUPE.LOOKUP", p, digest(1))
    .call("CHG.NEXT", p, "BLOCK", 0)
    .exec();
  const [, added, committed, refused, known, lease] = replies;
  assert.deepStrictEqual([added, committed, known, lease].map(([error]) => error), [null, null, null, null]);
  assert.deepStrictEqual([added[1], committed[1], known[1], lease[1]], [1, [1, 0], [record("a", 1)], null]);
  assert.strictEqual(code(refused[0]), "NOCRAWL");
}

async function who_waits_for_a_lease_gets_it() {
  const f = "{lease}:";
  let wait = meanwhile("CHG.NEXT", f, "LEASE", 60_000, "BLOCK", 0);
  await please("waits", Buffer.from(f).toString("hex"));
  assert.deepStrictEqual(await r.call("CHG.ADDURI", f, "crawl-1", "a.example", 0, 0, "https://a.example/"), [1]);
  const [[chg, token, deadline, due, count, execution, uri]] = await wait;
  assert.deepStrictEqual([chg, count, execution, uri], ["a.example", 1, "crawl-1", "https://a.example/"]);
  assert.ok([token, deadline, due].every(Number.isSafeInteger));

  const facts = ["ELAPSED", 5, "MIN", 60_000, "DONE", execution];
  wait = meanwhile("CHG.RELEASE", f, chg, token, ...facts, "NEXT", "BLOCK", 0);
  await please("waits", Buffer.from(f).toString("hex"));
  assert.deepStrictEqual(await r.call("CHG.ADD", f, "crawl-1", "b.example", 0), [1]);
  const [released, lease] = await wait;
  assert.ok(Number.isSafeInteger(released));
  assert.deepStrictEqual([lease[0], lease[5], lease[6]], ["b.example", null, null]);
  assert.strictEqual(await r.call("CHG.NEXT", f, "BLOCK", 1), null);
}

async function who_waits_for_a_claim_learns_what_comes_of_it() {
  const p = "{claim}:";
  const claim = (n, ...block) => ["DEDUPE.CLAIM", p, "a", digest(n), "PX", 60_000, ...block];
  const [state, token] = await r.call(...claim(1));
  assert.strictEqual(state, "CLAIMED");
  const [pending, holder, left] = await r.call(...claim(1));
  assert.ok(pending === "PENDING" && holder === "a" && left > 0 && left <= 60_000);
  let wait = meanwhile(...claim(1, "BLOCK", 0));
  await please("claims", 1);
  assert.strictEqual(await r.call("DEDUPE.ADD", p, "a", "TOKEN", token, digest(1), 0, DATE, URL + 1, 1001), 1);
  assert.deepStrictEqual(await wait, ["DUPE", record("a", 1)]);

  assert.strictEqual((await r.call(...claim(2)))[0], "CLAIMED");
  wait = meanwhile(...claim(2, "BLOCK", 0));
  await please("claims", 1);
  assert.strictEqual(await r.call("DEDUPE.CANCEL", p, "a"), 1);
  assert.strictEqual(code(await wait), "CANCELED");
}

async function errors_begin_with_their_code_word() {
  const p = "{errors}:";
  const tags = "{errors}tags";
  await add(p, "a", 1);
  await r.call("DEDUPE.COMMIT", p, "a");
  await add(p, "open", 2);
  await r.call("CHG.ADD", p, "crawl-1", "a.example", 0);
  const [[, token]] = await r.call("CHG.NEXT", p, "LEASE", 60_000);
  await r.set("{errors}text", "x");
  await r.set("{errors}other:allhashes", "x");
  await r.call("TAGS.ADD", tags, "TAG", "b", "c");
  const [, claimed] = await r.call("DEDUPE.CLAIM", p, "a", digest(3), "PX", 60_000);
  const cases = [
    ["NOCRAWL", "DEDUPE.COMMIT", p, "nobody"],
    ["BADCRAWL", "DEDUPE.WACZOPEN", p, "a:counts", "w"],
    ["BADHASH", "DEDUPE.LOOKUP", p, "short"],
    ["NOHASH", "DEDUPE.REVISIT", p, "a", digest(9), 5],
    ["STALE", "DEDUPE.UNCLAIM", p, digest(3), `${claimed}1`],
    ["COMMITTED", "DEDUPE.CANCEL", p, "a"],
    ["UNCOMMITTED", "DEDUPE.REMOVE", p, "open"],
    ["HASCRAWLS", "DEDUPE.PROFILE", p, "browsertrix"],
    ["NOCHG", "CHG.WHY", p, "nowhere.example"],
    ["STALE", "CHG.EXTEND", p, "a.example", token + 1, 1000],
    ["LEASED", "CHG.MOVE", p, "a.example", "b.example"],
    ["NOPOINT", "TAGS.FILTER", tags, "POINT", "none", "LINES", "x"],
    ["SYNTAX", "TAGS.POINTSET", tags, "p", "a & "],
    ["BADRE", "TAGS.RULESET", tags, "r", "filename", "(", "t"],
    ["BADLINE", "TAGS.FILTER", tags, "LINES", "x"],
    ["BADFIELD", "TAGS.LIST", tags, "status=200"],
    ["CYCLE", "TAGS.ADD", tags, "TAG", "c", "b"],
    ["NOSTAGE", "TAGS.SWAP", tags, "TAG"],
    ["WRONGTYPE", "TAGS.GET", "{errors}text", "TAG", "b"],
    ["WRONGTYPE", "DEDUPE.LOOKUP", "{errors}other:", digest(1)],
    ["BADPREFIX", "DEDUPE.STATS", `{${"p".repeat(1025)}}`],
    ["ERR", "CHG.ADD", p, "crawl-1", "a.example", "tomorrow"],
  ];
  for (const [word, ...command] of cases) {
    const error = await fails(r, ...command);
    assert.strictEqual(code(error), word, error.message);
    assert.ok(error.message.split(" ").length > 4, `a sentence: ${error.message}`);
  }
  const limited = connect({ username: "limited", password: "any" });
  assert.strictEqual(code(await fails(limited, "DEDUPE.COMMIT", p, "a")), "NOPERM");
  limited.disconnect();
  await please("config", "maxmemory", 1);
  const full = await fails(r, "DEDUPE.WACZOPEN", p, "b", "w");
  await please("config", "maxmemory", 0);
  assert.strictEqual(code(full), "OOM");
}

async function a_prefix_without_hash_tag_is_refused() {
  const error = await fails(r, "DEDUPE.STATS", "coll-42:");
  assert.ok(code(error) === "BADPREFIX" && error.message.includes("hash tag"), error.message);
  assert.ok(await r.call("TAGS.INFO", "archive"), "a key needs none");
}

async function a_slot_that_moves_is_found() {
  const p = "{moving}:";
  const prefix = Buffer.from(p).toString("hex");
  await add(p, "a", ...Array(20).keys());
  await r.call("DEDUPE.COMMIT", p, "a");
  await add(p, "b", 100);
  await r.call("CHG.ADDURI", p, "crawl-1", "a.example", 0, 0, URL);

  async function lookups() {
    const replies = await r.pipeline().call("DEDUPE.LOOKUP", p, digest(8)).call("DEDUPE.LOOKUP", p, digest(9)).exec();
    return replies.map(([error, reply]) => {
      if (error) throw error;
      return reply;
    });
  }

  // The server replies with TRYAGAIN, and the client retries until its limit of redirections.
  async function refused(call) {
    const error = await call.then(() => new Error("was served"), (error) => error);
    assert.ok(error.message.startsWith("Too many Cluster redirections"), error.message);
  }

  await please("begin", prefix);
  assert.deepStrictEqual(await r.call("DEDUPE.LOOKUP", p, digest(7)), [record("a", 7)], "nothing has left");
  await refused(r.call("CHG.ADDURI", p, "crawl-1", "a.example", 0, 0, URL));
  await please("keys", prefix);
  await refused(r.call("DEDUPE.LOOKUP", p, digest(7)));
  await please("finish", prefix);
  assert.deepStrictEqual(await r.call("DEDUPE.LOOKUP", p, digest(7)), [record("a", 7)]);
  assert.deepStrictEqual(await lookups(), [[record("a", 8)], [record("a", 9)]]);
  assert.strictEqual(await add(p, "b", 100), 0);
  assert.strictEqual(await add(p, "b", 101), 1);
  assert.deepStrictEqual(await r.call("CHG.ADDURI", p, "crawl-1", "a.example", 0, 0, URL), [1]);
  assert.deepStrictEqual(await r.call("DEDUPE.COMMIT", p, "b"), [2, 0]);
  assert.strictEqual((await r.call("CHG.NEXT", p))[0][0], "a.example");
}

const scenes = [
  any_bytes_go_in_and_come_out,
  a_pipeline_has_errors_in_their_place,
  a_transaction_waits_for_nothing,
  who_waits_for_a_lease_gets_it,
  who_waits_for_a_claim_learns_what_comes_of_it,
  errors_begin_with_their_code_word,
];
if (process.env.CLUSTER) scenes.push(a_prefix_without_hash_tag_is_refused, a_slot_that_moves_is_found);

async function main() {
  console.log(version);
  for (const scene of scenes) {
    await scene();
    console.log("ok", scene.name);
  }
  r.disconnect();
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
