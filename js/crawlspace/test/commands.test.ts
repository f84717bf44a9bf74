// Every command, with all of its options, has a typed call.

import assert from "node:assert";
import { after, before, test } from "node:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { Dedupe, ERRORS, Frontier, Tags } from "crawlspace";

import { Server } from "./server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

/** A client that only records what is sent. */
class Recorder {
  readonly status = "ready";
  readonly options = {};
  readonly sent: string[][] = [];

  callBuffer(name: string, words: unknown[]): Promise<unknown> {
    recorder.sent.push([name, ...words.map(String)]);
    return Promise.resolve(null);
  }
  sendCommand(): void {}
  duplicate(): this {
    return this;
  }
  disconnect(): void {}
  on(): void {}
}
const recorder = new Recorder();

/** Calls everything with every option. Replies are nil, so calls may fail when they read them. */
async function callEverything(): Promise<void> {
  const client = recorder as never;
  const f = new Frontier(client, "{f}:", { now: () => 1 });
  const d = new Dedupe(client, "{d}:");
  const t = new Tags(client, "tags");
  const lease = { group: Buffer.from("g"), token: 7 };
  const facts = { elapsed: 1, factor: 2, min: 3, max: 4, crawlDelay: 5, retryAfter: 6, status: 200 };
  const next = { lease: 1, block: 2, uris: 3, gate: 4, execution: "e" };
  const item = { group: "g", at: 1, depth: 2, uri: "u" };
  const condition = {
    point: "p", where: "w", filters: ["f"], dialect: "ia", collapse: "c", skip: 1, limit: 2, format: "cdx", badLines: "drop",
  } as const;
  const types = ["record", "file", "tag"] as const;
  const calls: (() => Promise<unknown>)[] = [
    () => f.add("e", [{ group: "g" }]),
    () => f.addUri("e", [item], { weight: 2 }),
    () => f.discover("e", [item, { ...item, key: "k" }, { ...item, payload: "p" }, { ...item, key: "k", payload: "p" }], {
      fresh: 1, weight: 2,
    }),
    () => f.settle("e", [{ group: "g", uri: "u", at: 1 }, { group: "g", uri: "u", at: "never" }], { status: 200 }),
    () => f.settle("e", [{ group: "g", uri: "u", at: 1, payload: "p" }]),
    () => f.known("e", ["u"]),
    () => f.count("e", { group: "g" }),
    () => f.forget("e", ["u"]),
    () => f.forgetAll("e", { group: "g", before: 1, state: "done" }),
    () => f.forgetAll("e", { state: "given-up" }),
    () => f.space("e", { bits: 96 }),
    () => f.space("e", { bits: 128, share: "s", keepText: true }),
    () => f.space("e", { keepText: false }),
    () => f.next({ ...next, count: 2, group: "g" }),
    () => f.release(lease, { at: 1, retry: 2, payload: "p" }),
    () => f.release(lease, { delay: 1, later: 2 }),
    () => f.releaseNext(lease, { ...facts, done: "e", count: 2 }, next),
    () => f.done(lease, "e", ["u"]),
    () => f.extend(lease, 1),
    () => f.expired({ count: 1 }),
    () => f.block("g", 1),
    () => f.pause({ execution: "e" }),
    () => f.pause({ group: "g" }),
    () => f.resume({ execution: "e" }),
    () => f.limit("g", { parallel: 1, gap: 2, delay: 3, budget: 4, done: { urls: 5, execution: "e" } }),
    () => f.share("gate", ["g"]),
    () => f.move("a", "b"),
    () => f.drop("e"),
    () => f.dropGroup("g"),
    () => f.why("g"),
    () => f.info(),
    () => f.executionInfo("e"),
    ...(["waiting", "ready", "busy", "freed"] as const).map((state) => () => f.list({ state, cursor: "1", count: 2 })),
    () => f.uris("g", { cursor: "1", count: 2 }),
    () => f.urls("e", { state: "queued", count: 2 }),
    () => f.urls("e", { state: "leased" }),
    () => f.urls("e", { state: "done" }),
    () => f.urls("e", { state: "given-up" }),
    () => f.check(),
    () => f.repair(),
    () => f.pack(),
    () => f.unpack(),
    () => f.sweep({ limit: 1 }),
    () => d.lookup(["h"], { crawl: "c", withWacz: true }),
    () => d.lookupUrl(["u"], { crawl: "c", limit: 1, before: "2026" }),
    () => d.indexUrls(true),
    () => d.indexUrls(false),
    () => d.claim("c", "h", { px: 1, block: 2, withWacz: true }),
    () => d.lookupText(["h"], { crawl: "c" }),
    () => d.claimText("c", "h", { px: 1, block: 2 }),
    () => d.unclaim("h", "1"),
    () => d.begin("c", { visible: true }),
    () => d.add("c", [{ hash: "h", date: "d", url: "u", size: 1 }], { token: "1", earliest: true }),
    () => d.revisit("c", [{ hash: "h", size: 1, original: { crawl: Buffer.from("c"), waczIndex: 0, size: 2 } }], { ref: "r" }),
    () => d.revisit("c", [{ hash: "h", size: 1 }], { noRef: true }),
    () => d.waczOpen("c", "f"),
    () => d.waczClose("c", { index: 0, filename: "f", hash: "h", size: 1 }, { rename: true }),
    () => d.waczList("c"),
    () => d.commit("c"),
    () => d.cancel("c"),
    () => d.remove("c"),
    () => d.retain(["c"], { purge: true }),
    () => d.requiredBy("c"),
    () => d.requires({ ref: "r" }, { transitive: true }),
    () => d.requiresJson({ refs: [{ crawl: "c", waczIndex: 1 }] }),
    () => d.requires({ crawl: "c" }),
    () => d.stats({ samples: 1 }),
    () => d.crawlStats("c"),
    ...(["uncommitted", "committed", "unlisted"] as const).map((only) => () => d.crawls({ only })),
    () => d.check(),
    () => d.repair(),
    () => d.profile(),
    () => d.setProfile("document"),
    () => d.setProfile("browsertrix"),
    () => d.pack(),
    () => d.unpack(),
    ...types.map((type) => () => t.add(type, "i", ["t"])),
    ...types.map((type) => () => t.remove(type, "i", ["t"])),
    ...types.map((type) => () => t.get(type, "i", { all: true })),
    ...types.flatMap((type) =>
      (["merge", "set", "replace", "stage"] as const).map((mode) => () => t.load(type, mode, [{ id: "i", tags: ["a", "b"] }]))),
    ...types.flatMap((type) => [() => t.swap(type, { expect: 1 }), () => t.discard(type)]),
    ...(["outback", "ia", "pywb"] as const).map((dialect) => () => t.filter(["l"], { ...condition, dialect })),
    ...(["auto", "cdx", "cdxj", "record", "file"] as const).map((format) => () => t.filterText("l", { format })),
    ...(["error", "drop"] as const).map((badLines) => () => t.filterIndex(["l"], { badLines })),
    () => t.filterBits(["l"]),
    () => t.filterCount(["l"]),
    () => t.filterTags(["l"]),
    ...(["outback", "ia", "pywb"] as const).map((dialect) => () => t.explain("l", { ...condition, dialect })),
    ...(["auto", "cdx", "cdxj", "record", "file"] as const).map((format) => () => t.explain("l", { format })),
    () => t.explain("l", { badLines: "error" }),
    () => t.setRule("r", "filename", "x", ["t"]),
    () => t.deleteRule("r"),
    () => t.rules(),
    () => t.setPoint("p", "x"),
    () => t.deletePoint("p"),
    () => t.points(),
    () => t.point("p"),
    () => t.list("x", { prefix: "p", cursor: "1", count: 2 }),
    ...types.map((type) => () => t.scan(type, { prefix: "p", cursor: "1", count: 2 })),
    () => t.info(),
  ];
  for (const call of calls) await call().catch(() => {});
}

/** Returns the tokens of a list of arguments as COMMAND DOCS has it. */
function tokens(argument: unknown): string[] {
  if (!Array.isArray(argument)) return [];
  const found: string[] = [];
  if (argument[0] === "name") {
    const fields = new Map(argument.flatMap((name, i) => (i % 2 === 0 ? [[name, argument[i + 1]]] : [])) as [string, unknown][]);
    const token = fields.get("token");
    if (typeof token === "string") found.push(...token.split(" "));
    found.push(...tokens(fields.get("arguments")));
  } else {
    for (const part of argument) found.push(...tokens(part));
  }
  return found;
}

// Exceptions: options that TAGS.EXPLAIN accepts but ignores, and reply formats that it does not have.
const IGNORED = new Map([["tags.explain", new Set(["RETURN", "INDEX", "BITS", "COUNT", "TAGS", "BLOB"])]]);

test("every command and every token has a call, and every call is documented", async () => {
  await callEverything();
  const sent = new Map<string, Set<string>>();
  for (const [name, ...words] of recorder.sent) {
    const there = sent.get((name as string).toLowerCase()) ?? new Set();
    for (const word of words) there.add(word);
    sent.set((name as string).toLowerCase(), there);
  }
  const listed = (await server.call("COMMAND", "LIST", "FILTERBY", "MODULE", "crawlspace")) as string[];
  // The server runs `DEDUPE.HGET` and similar commands instead of its own commands, which the
  // clients have.
  const standIn = /^dedupe\.(hget|hlen|hscan|hsetnx|rename(nx)?)$/;
  const commands = listed
    .map((name) => name.toLowerCase())
    .filter((name) => /^(chg|dedupe|tags)\./.test(name) && !standIn.test(name))
    .sort();
  assert.ok(commands.length > 60, `${commands.length} commands`);
  assert.deepStrictEqual([...sent.keys()].sort(), commands);
  const missing: string[] = [];
  const unknown: string[] = [];
  for (const name of commands) {
    const [, docs] = (await server.call("COMMAND", "DOCS", name)) as [string, unknown[]];
    const all = tokens(docs[docs.indexOf("arguments") + 1]).map((token) => token.toUpperCase());
    const there = new Set([...(sent.get(name) ?? [])].map((word) => word.toUpperCase()));
    for (const token of all) {
      if (!there.has(token) && !IGNORED.get(name)?.has(token)) missing.push(`${name} ${token}`);
    }
    // All values in this test are in lower case or numbers, apart from the name of a writer.
    for (const word of sent.get(name) ?? []) {
      if (/^[A-Z]+$/.test(word) && !all.includes(word)) unknown.push(`${name} ${word}`);
    }
  }
  assert.deepStrictEqual({ missing, unknown }, { missing: [], unknown: [] });
});

test("every error code of the documentation has a class", () => {
  const folder = join(process.env["CRAWLSPACE_ROOT"] ?? join(__dirname, "../../.."), "docs/commands");
  const codes = new Set<string>();
  for (const file of readdirSync(folder)) {
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, part] of text.matchAll(/^\| code \|[^\n]*\n\|[-|]*\n((?:\|.*\n)*)/gm)) {
      for (const line of (part as string).split("\n")) {
        for (const [, code] of (line.split("|")[1] ?? "").matchAll(/`([A-Z]{3,})/g)) codes.add(code as string);
      }
    }
  }
  // Redirections are followed by the client.
  for (const code of ["MOVED", "ASK"]) codes.delete(code);
  assert.ok(codes.size > 20, [...codes].join());
  assert.deepStrictEqual([...codes].filter((code) => !ERRORS.has(code)), []);
  for (const [code, type] of ERRORS) assert.strictEqual(new type(code, "x").name, type.name);
});
