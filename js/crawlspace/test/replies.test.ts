// All clients, versions and protocols return the same values, on one server and on a cluster.

import assert from "node:assert";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";

import * as crawlspace from "crawlspace";
import { Dedupe, Frontier, Tags, type RedisClient } from "crawlspace";

import { KINDS, NEWEST } from "./clients.js";
import { Cluster, Server } from "./server.js";

let server: Server;
let cluster: Cluster;
before(async () => {
  [server, cluster] = await Promise.all([
    Server.start("simulated"),
    Cluster.start({ args: ["simulated"] }),
  ]);
});
after(() => Promise.all([server?.stop(), cluster?.stop()]));

const latin1 = (text: string) => Buffer.from(text, "latin1");
const digest = (n: number) => "sha256:" + createHash("sha256").update(String(n)).digest("hex");
const DATE = "20260319102015123";
const T = 1_700_000_000_000;

/** Returns the code word and class of an error. */
async function failure(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(() => assert.fail("no error"), (error: unknown) => error);
  assert.ok(error instanceof crawlspace.CrawlspaceError, String(error));
  return `${error.code} ${error.name}`;
}

/** Calls most commands, and returns their replies by name. */
async function scenario(client: RedisClient): Promise<Record<string, unknown>> {
  const prefix = latin1("{\xfe}\xff:");
  const crawl = latin1("cr\xffwl");
  const group = latin1("h\xffst");
  const uri = latin1("https://example.com/caf\xe9 \xff");
  const said: Record<string, unknown> = {};
  let now = T;

  const d = new Dedupe(client, prefix, { retryFor: 2000 });
  said["waczOpen"] = await d.waczOpen(crawl, latin1("caf\xe9.wacz"));
  said["add"] = await d.add(crawl, [1, 2, 3].map((n) => ({ hash: digest(n), date: DATE, url: uri, size: n })));
  said["running"] = await d.crawls();
  said["lookup"] = await d.lookup([digest(1), digest(9)], { crawl, withWacz: true });
  said["unknown"] = await d.lookup([digest(1)]);
  said["commit"] = await d.commit(crawl);
  said["lookupText"] = await d.lookupText([digest(1), digest(9)]);
  said["claimText"] = await d.claimText("other", digest(1), { px: 1000 });
  said["claim"] = await d.claim("other", digest(1), { px: 1000 });
  const claimed = await d.claim("other", digest(10), { px: 60_000, block: 1 });
  assert.strictEqual(claimed.state, "claimed");
  said["pending"] = (await d.claim("third", digest(10), { px: 1000, block: 1 })).state;
  said["unclaim"] = [await d.unclaim(digest(10), claimed.token), await d.unclaim(digest(10), claimed.token)];
  said["revisit"] = await d.revisit("other", [{ hash: digest(1), size: 7 }], { ref: "uuid" });
  said["requires"] = [await d.requires({ ref: "uuid" }), await d.requiresJson({ refs: [{ crawl: "other", waczIndex: 0 }] })];
  said["requiredBy"] = await d.requiredBy(crawl);
  said["waczClose"] = await d.waczClose(crawl, { index: 0, filename: latin1("caf\xe9.wacz"), hash: "", size: 12 });
  said["waczList"] = await d.waczList(crawl);
  said["indexUrls"] = await d.indexUrls(true);
  said["lookupUrl"] = await d.lookupUrl([uri, "https://unknown/"]);
  said["begin"] = [await d.begin("new", { visible: true }), await d.begin("new")];
  said["crawls"] = await d.crawls();
  said["stats"] = { ...(await d.stats({ samples: 4 })), memory: 0 };
  said["crawlStats"] = { ...(await d.crawlStats(crawl)), memory: 0 };
  said["check"] = await d.check();
  said["profile"] = await d.profile();
  said["pack"] = { ...(await d.pack()), memory: 0 };
  said["repair"] = await d.repair();
  said["unpack"] = { ...(await d.unpack()), memory: 0 };
  said["cancel"] = await d.cancel("other");
  said["remove"] = await d.remove(crawl);
  said["retain"] = await d.retain([], { purge: true }).catch((error) => error.code);
  said["no crawl"] = await failure(d.commit("nothing"));
  said["bad hash"] = await failure(d.lookup(["short"]));

  const f = new Frontier(client, prefix, { now: () => now, retryFor: 2000 });
  said["addUri"] = await f.addUri(crawl, [{ group, uri }, { group, uri: "b", depth: 2, at: T + 5 }], { weight: 3 });
  said["counted"] = await f.add("plain", [{ group: "counted" }, { group: "counted" }]);
  said["plain"] = await failure(f.discover(crawl, [{ group, uri }]));
  said["uris"] = await f.uris(group);
  said["list"] = await f.list({ state: "waiting" });
  said["next"] = await f.next({ lease: 60_000, count: 2 });
  said["extend"] = await f.extend((said["next"] as crawlspace.Lease[])[0] as crawlspace.Lease, 90_000);
  said["why"] = await f.why(group);
  said["info"] = { ...(await f.info()), leases: 0, releases: 0, expired: 0, rateLeases: 0 };
  const [first, second] = said["next"] as [crawlspace.Lease, crawlspace.Lease];
  said["release"] = await f.release(first, { elapsed: 300, factor: 2.5, min: 100, max: 1000, status: 503, done: crawl });
  said["releaseNext"] = await f.releaseNext(second, { delay: 0, retry: 0 });
  said["stale"] = await failure(f.release({ group, token: 5 }, { delay: 0 }));
  said["no group"] = await failure(f.why("nothing"));
  await f.limit(group, { parallel: 2, gap: 10, delay: 20, budget: 30 });
  await f.share("gate", [group]);
  await f.block(group, T + 50);
  said["held"] = await f.why(group);
  await f.pause();
  said["paused"] = (await f.info()).paused;
  await f.resume();
  await f.pause({ execution: crawl });
  said["executionInfo"] = await f.executionInfo(crawl);
  await f.resume({ execution: crawl });
  now = T + 1_000_000;
  said["sweep"] = await f.sweep({ limit: 10 });
  said["drop"] = [await f.drop(crawl), await f.dropGroup("counted")];
  said["checked"] = [await f.check(), await f.repair()];
  said["packed"] = await f.pack();
  said["discover"] = await f.discover("known", [
    { group, uri }, { group, uri: "k", key: latin1("\xff") }, { group, uri: "p", payload: latin1("\xfe") },
    { group, uri: "kp", key: "key", payload: "{}" }, { group, uri },
  ]);
  said["full"] = await f.next({ uris: 10, lease: 1000, execution: "known" });
  said["count"] = [await f.count("known"), await f.count("known", { group })];
  said["done"] = await f.done((said["full"] as crawlspace.Lease[])[0] as crawlspace.Lease, "known", [uri]);
  said["settle"] = await f.settle("known", [
    { group, uri, at: "never" }, { group, uri: "z", at: 0, payload: "new" },
  ], { status: 201 });
  said["knownUris"] = await f.known("known", [uri, "z", "unknown"]);
  await f.limit(group, { done: { urls: 9, execution: "known" } });
  said["limited"] = (await f.why(group)).doneLimits;
  assert.deepStrictEqual(said["limited"], [{ execution: Buffer.from("known"), limit: 9, done: 1 }]);
  said["forget"] = [await f.forget("known", ["z", "y"]), await f.forgetAll("known", { state: "done" })];
  now += 10_000;
  said["expired"] = [await f.next({ uris: 1 }), await f.expired({ count: 5 })];
  said["remembers"] = await failure(f.unpack());

  const t = new Tags(client, latin1("{\xfe}tags"));
  said["tagsAdd"] = await t.add("file", latin1("caf\xe9.warc.gz"), [latin1("t\xffg"), "coll:1"]);
  said["tagsGet"] = await t.get("file", latin1("caf\xe9.warc.gz"), { all: true });
  said["load"] = await t.load("tag", "set", [{ id: "coll:1", tags: ["org:1", latin1("\xff")] }]);
  await t.setRule("r", "filename", "^(\\d+)", ["coll:$1"]);
  said["rules"] = await t.rules();
  await t.setPoint("p", "coll:*");
  await t.setPoint("org-(.*)", "org:$1");
  said["points"] = [await t.points(), await t.point("org-1")];
  const lines = [latin1("caf\xe9.warc.gz"), "7.warc.gz", "x.warc.gz"];
  const condition = { point: "p", format: "file" } as const;
  said["filter"] = await t.filter(lines, condition);
  said["filterText"] = await t.filterText("7.warc.gz\nx.warc.gz\n", condition);
  said["filterOthers"] = [
    await t.filterIndex(lines, condition), await t.filterBits(lines, condition),
    await t.filterCount(lines, condition), await t.filterTags(lines, condition),
  ];
  said["explain"] = await t.explain("7.warc.gz", condition);
  said["scan"] = await t.scan("tag");
  said["tagsList"] = await t.list("coll:*", { count: 1 });
  said["tagsInfo"] = { ...(await t.info()), memory: 0 };
  said["stage"] = [await t.load("file", "stage", [{ id: "s", tags: [] }]), await t.discard("file")];
  said["noStage"] = await failure(t.swap("file", { expect: 4 }));
  said["syntax"] = await failure(t.filter(["x"], { where: "&&" }));
  said["tagsRemove"] = [await t.remove("file", latin1("caf\xe9.warc.gz"), ["coll:1"]), await t.deleteRule("r"), await t.deletePoint("p")];

  for (const closing of [d, f]) closing.close();
  return said;
}

let expected: Record<string, unknown> | undefined;

for (const kind of KINDS) {
  for (const clustered of [false, true]) {
    test(`${kind.name}${clustered ? " on a cluster" : ""}: replies are the same`, async () => {
      const port = clustered ? cluster.port : server.port;
      for (const node of clustered ? cluster.nodes : [server]) await node.call("FLUSHALL");
      const { client, close } = await kind.open(port, clustered);
      try {
        const said = await scenario(client);
        expected ??= said;
        assert.deepStrictEqual(said, expected);
      } finally {
        await close();
      }
    });
  }
}

test("replies have the documented values", () => {
  const said = expected as Record<string, any>;
  assert.deepStrictEqual(said["lookup"], [
    { crawl: latin1("cr\xffwl"), waczIndex: 0, date: Buffer.from(DATE), url: latin1("https://example.com/caf\xe9 \xff"), size: 1, wacz: latin1("caf\xe9.wacz") },
    null,
  ]);
  assert.deepStrictEqual(said["unknown"], [null]);
  assert.deepStrictEqual(said["commit"], { added: 3, known: 0 });
  assert.deepStrictEqual(said["crawls"].map(({ crawl }: { crawl: Buffer }) => crawl), [latin1("cr\xffwl"), "new", "other"].map((x) => Buffer.from(x)).sort(Buffer.compare));
  assert.strictEqual(said["no crawl"], "NOCRAWL NoCrawlError");
  assert.strictEqual(said["plain"], "PLAIN PlainError");
  assert.strictEqual(said["stale"], "STALE StaleError");
  assert.strictEqual(said["syntax"], "SYNTAX ExpressionError");
  assert.deepStrictEqual(said["discover"], [1, 2, 3, 4, 0]);
  const [lease] = said["full"];
  assert.deepStrictEqual(lease.uris.map((uri: crawlspace.LeasedUri) => [uri.uri.toString("latin1"), uri.key, uri.payload]), [
    ["https://example.com/caf\xe9 \xff", null, null],
    ["k", latin1("\xff"), null],
    ["p", null, latin1("\xfe")],
    ["kp", Buffer.from("key"), Buffer.from("{}")],
  ]);
  assert.deepStrictEqual(said["settle"], [true, true]);
  assert.deepStrictEqual(said["filterOthers"].slice(0, 3), [[0, 1], Buffer.from([0xc0]), 2]);
  assert.deepStrictEqual(said["points"][1], { name: Buffer.from("org-(.*)"), expression: Buffer.from("org:1") });
  assert.strictEqual(said["explain"].keep, true);
});

test("commands go to the right node of a cluster", async () => {
  for (const kind of NEWEST) {
    for (const node of cluster.nodes) await node.call("CONFIG", "RESETSTAT");
    const { client, close } = await kind.open(cluster.port, true);
    for (const tag of ["a", "b", "c", "d", "e"]) await new Frontier(client, `{${tag}}:`).addUri("e", [{ group: "g", uri: "u" }]);
    await close();
    for (const node of cluster.nodes) {
      assert.doesNotMatch(String(await node.call("INFO", "errorstats")), /MOVED/, kind.name);
    }
  }
  const { client, close } = await (NEWEST[0] as (typeof KINDS)[0]).open(cluster.port, true);
  assert.strictEqual(await failure(new Dedupe(client, "no-tag:").stats()), "BADPREFIX BadPrefixError");
  await close();
});
