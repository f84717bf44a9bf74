// Crawls of four processes while connections break, servers restart, roles change and processes die.

import assert from "node:assert";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";

import { Dedupe, Frontier } from "crawlspace";
import { Redis } from "ioredis";

import { Cluster, Relay, Server, until } from "./server.js";

const PAGES = process.env["CRAWLSPACE_PEERS"] === "full" ? 10_000 : 400;
const PAYLOADS = Math.round(PAGES / 4);
const HOSTS = 20;
const PROCESSES = 4;

/** The processes of a crawl, and the URLs that they have fetched. */
class Crawl {
  readonly fetched: string[] = [];
  private readonly workers: ChildProcess[] = [];
  private readonly errors: string[] = [];
  private ending = false;

  constructor(
    private readonly port: number,
    private readonly clustered = false,
  ) {
    for (let i = 0; i < PROCESSES; i++) this.start(i);
  }

  private start(i: number): void {
    const program = join(__dirname, "worker.js");
    const words = [this.port, this.clustered ? 1 : 0, i % 2, PAYLOADS].map(String);
    const worker = spawn(process.execPath, [program, ...words], { stdio: ["ignore", "pipe", "pipe"] });
    let rest = "";
    worker.stdout.on("data", (data) => {
      const lines = (rest + String(data)).split("\n");
      rest = lines.pop() ?? "";
      this.fetched.push(...lines);
    });
    worker.stderr.on("data", (data) => this.errors.push(String(data)));
    worker.on("exit", (status) => {
      if (status !== 0 && status !== null && !this.ending) this.errors.push(`status ${status}`);
    });
    this.workers[i] = worker;
  }

  /** Kills a process and starts another one. */
  async kill(i: number): Promise<void> {
    const worker = this.workers[i] as ChildProcess;
    const gone = once(worker, "exit");
    worker.kill("SIGKILL");
    await gone;
    this.start(i);
  }

  /** Waits until this fraction of all pages has been fetched. */
  async reach(part: number): Promise<void> {
    const pages = Math.round(PAGES * part);
    await until(`${pages} pages are fetched`, async () => {
      assert.deepStrictEqual(this.errors, []);
      return this.fetched.length >= pages;
    }, 600_000);
  }

  async end(): Promise<void> {
    this.ending = true;
    for (const worker of this.workers) worker.kill("SIGTERM");
    for (const worker of this.workers) if (worker.exitCode === null && worker.signalCode === null) await once(worker, "exit");
    assert.deepStrictEqual(this.errors, []);
  }
}

interface Result {
  /** Pages that were fetched more than once. */
  twice: number;
  /** Captures that were counted more than once. */
  repeated: number;
}

/** Runs a crawl, disturbs it, and checks that nothing was lost. */
async function crawl(port: number, clustered: boolean, disturb: (crawl: Crawl) => Promise<void>): Promise<Result> {
  const client = clustered
    ? new Redis.Cluster([{ host: "127.0.0.1", port }])
    : new Redis({ host: "127.0.0.1", port });
  client.on("error", () => {});
  const frontier = new Frontier(client, "{crawl}:");
  const dedupe = new Dedupe(client, "{crawl}:");
  let running: Crawl | undefined;
  try {
    await frontier.pack();
    const items = Array.from({ length: PAGES }, (_, n) => ({ group: `host-${n % HOSTS}`, uri: `host-${n % HOSTS}/${n}` }));
    await frontier.discover("crawl-1", items);
    running = new Crawl(port, clustered);
    await disturb(running);
    await until("all pages are done", async () => {
      assert.deepStrictEqual((running as Crawl)["errors"], []);
      return (await frontier.count("crawl-1")).done === PAGES;
    }, 600_000);
    await running.end();
    assert.deepStrictEqual(await frontier.count("crawl-1"), { queued: 0, leased: 0, done: PAGES, givenUp: 0, known: PAGES });
    assert.ok((await frontier.check()).consistent);
    await dedupe.commit("crawl-1");
    const check = await dedupe.check();
    assert.ok(check.ok, JSON.stringify(check));
    const { hashes, totalUrls, dupeUrls } = await dedupe.crawlStats("crawl-1");
    // Each payload is stored once, and every other capture is a revisit of it.
    assert.deepStrictEqual([hashes, totalUrls - dupeUrls], [PAYLOADS, PAYLOADS]);
    assert.strictEqual(new Set(running.fetched).size, PAGES);
    return { twice: running.fetched.length - PAGES, repeated: totalUrls - PAGES };
  } finally {
    await running?.end().catch(() => {});
    client.disconnect();
  }
}

test("lost connections and restarts lose and double nothing", async () => {
  const server = await Server.start();
  const relay = await Relay.to(server.port);
  try {
    const result = await crawl(relay.port, false, async (crawl) => {
      for (let step = 1; step <= 8; step++) {
        await crawl.reach(step / 10);
        if (step % 3 === 0) await server.restart();
        else relay.cut();
      }
    });
    assert.deepStrictEqual(result, { twice: 0, repeated: 0 });
  } finally {
    await relay.stop();
    await server.stop();
  }
});

test("killed processes lose nothing, and repeat no more than the pages that they were fetching", async () => {
  const server = await Server.start();
  const kills = 8;
  try {
    const result = await crawl(server.port, false, async (crawl) => {
      for (let step = 1; step <= kills; step++) {
        await crawl.reach(step / (kills + 1));
        await crawl.kill(step % PROCESSES);
      }
    });
    assert.ok(result.twice <= kills && result.repeated <= kills, JSON.stringify(result));
  } finally {
    await server.stop();
  }
});

test("a failover of a cluster and a killed master lose and double nothing", async () => {
  const cluster = await Cluster.start({ replicaFor: "{crawl}:", args: ["--cluster-node-timeout", "2000"] });
  try {
    const result = await crawl(cluster.port, true, async (crawl) => {
      await crawl.reach(0.3);
      await cluster.failover();
      await crawl.reach(0.6);
      await cluster.killMaster();
    });
    assert.deepStrictEqual(result, { twice: 0, repeated: 0 });
  } finally {
    await cluster.stop();
  }
});
