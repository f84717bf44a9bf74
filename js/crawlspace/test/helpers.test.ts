// The loop of leases and the capture of a payload.

import assert from "node:assert";
import { after, before, test } from "node:test";

import { Dedupe, Frontier, PlainError, StaleError, type HeldLease } from "crawlspace";

import { KINDS, NEWEST, type Kind } from "./clients.js";
import { Relay, Server, until } from "./server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server?.stop());

let count = 0;

/** Runs a test with a packed frontier and an index of its own, once with each client. */
function scene(
  name: string,
  body: (parts: { f: Frontier; d: Dedupe; kind: Kind; frontier: () => Promise<Frontier> }) => Promise<void>,
  options: Record<string, unknown> = {},
): void {
  for (const kind of NEWEST) {
    test(`${kind.name}: ${name}`, async () => {
      const prefix = `{scene-${count++}}:`;
      const opened = await kind.open(server.port, false, options);
      const others: (() => Promise<void>)[] = [];
      const frontier = async () => {
        const other = await kind.open(server.port);
        others.push(other.close);
        return new Frontier(other.client, prefix);
      };
      try {
        const f = new Frontier(opened.client, prefix);
        await f.pack();
        await body({ f, d: new Dedupe(opened.client, prefix), kind, frontier });
      } finally {
        await opened.close();
        for (const close of others) await close();
      }
    });
  }
}

const uris = (...names: string[]) => names.map((uri) => ({ group: uri.split("/")[0] as string, uri }));
const state = async (f: Frontier, ...names: string[]) => (await f.known("c", names)).map((known) => known?.state);
const text = (lease: HeldLease) => String(lease.uri);

scene("a loop ends each lease with the request for the next one", async ({ f }) => {
  await f.discover("c", uris("a/1", "a/2", "b/1"));
  const seen: string[] = [];
  for await (const lease of f.leases({ execution: "c", uris: 1, lease: 60_000, idle: 300, max: 20 })) {
    seen.push(text(lease));
    lease.done({ status: 200 });
  }
  assert.deepStrictEqual(seen.sort(), ["a/1", "a/2", "b/1"]);
  const [known] = await f.known("c", ["a/1"]);
  assert.deepStrictEqual([known?.state, known?.status], ["done", 200]);
  const { releases, groupsBusy } = await f.info();
  assert.deepStrictEqual([releases, groupsBusy], [3, 0]);
});

scene("messages say what is wrong and what to do", async ({ f, d }) => {
  const wrong = (value: unknown) => value as never;
  await assert.rejects(f["link"].call(["CHG.NONE", "x"]), /does not know CHG.NONE: load the module/);
  await assert.rejects(f.discover("c", [{ group: "a", uri: wrong(undefined) }]), /argument 9 of CHG.DISCOVER is undefined/);
  await assert.rejects(async () => d.lookup([wrong(null)]), /argument 2 of DEDUPE.LOOKUP is null/);
  await assert.rejects(async () => d.claim("c", wrong(1), { px: 1000, block: 10 }), /argument 3 of DEDUPE.CLAIM is 1/);
  assert.throws(() => new Frontier(wrong(undefined), "x"), /expected a client of ioredis or node-redis, not undefined/);
});

scene("a loop works on a plain frontier, and on one that only counts", async ({ f }) => {
  await f.unpack();
  await f.addUri("c", uris("a/1"));
  for await (const lease of f.leases({ idle: 50 })) {
    assert.deepStrictEqual([text(lease), lease.uris[0]?.depth], ["a/1", null]);
    lease.done();
  }
  assert.deepStrictEqual(await f.add("c", [{ group: "n" }, { group: "n" }]), [1, 2]);
  for await (const lease of f.leases({ idle: 50 })) {
    assert.deepStrictEqual([String(lease.group), lease.uri], ["n", null]);
    assert.throws(() => lease.done(), TypeError);
    lease.done({ execution: "c", count: 2, delay: 0 });
  }
  assert.strictEqual((await f.info()).uris, 0);
  await assert.rejects(f.leases({ execution: "c", idle: 1 })[Symbol.asyncIterator]().next(), PlainError);
});

scene("break, an exception and a signal give the lease back at once", async ({ f }) => {
  await f.discover("c", uris("a/1"));
  const options = { execution: "c", uris: 1, lease: 600_000, max: 1 };
  for await (const _ of f.leases(options)) break;
  assert.deepStrictEqual(await state(f, "a/1"), ["queued"]);
  await assert.rejects(async () => {
    for await (const _ of f.leases(options)) throw new Error("of the body");
  }, /of the body/);
  assert.deepStrictEqual(await state(f, "a/1"), ["queued"]);
  const abort = new AbortController();
  for await (const _ of f.leases({ ...options, signal: abort.signal })) abort.abort();
  assert.deepStrictEqual(await state(f, "a/1"), ["queued"]);
  // If the body has set how the lease ends, this end is sent.
  for await (const lease of f.leases(options)) {
    assert.strictEqual(lease.uris[0]?.attempts, 0);
    lease.done();
    break;
  }
  assert.deepStrictEqual(await state(f, "a/1"), ["done"]);
});

scene("a signal ends a wait", async ({ f }) => {
  const abort = new AbortController();
  const loop = (async () => {
    for await (const _ of f.leases({ signal: abort.signal })) assert.fail("nothing is queued");
  })();
  await until("the loop waits", async () => (await f.info()).waiters === 1);
  abort.abort();
  await loop;
});

scene("retry queues for a time with a new payload, and a lease that is not ended is given back", async ({ f }) => {
  await f.discover("c", [{ group: "a", uri: "a/1", payload: "first" }]);
  const payloads: string[] = [];
  for await (const lease of f.leases({ execution: "c", uris: 1, max: 1, idle: 100 })) {
    payloads.push(String(lease.uris[0]?.payload));
    if (payloads.length === 1) lease.retry(0, { payload: "second" });
    else if (payloads.length === 3) lease.done();
  }
  assert.deepStrictEqual(payloads, ["first", "second", "second"]);
});

scene("later frees the host, and done ends the URI", async ({ f }) => {
  await f.discover("c", uris("a/1", "a/2", "a/3"));
  const parsing: Promise<void>[] = [];
  const seen: string[] = [];
  for await (const lease of f.leases({ execution: "c", uris: 1, max: 1, idle: 200 })) {
    seen.push(text(lease));
    await lease.later(60_000, { status: 200 });
    assert.deepStrictEqual(await state(f, text(lease)), ["leased"]);
    if (seen.length === 1) continue; // ended outside the loop
    lease.done();
    if (seen.length === 2) parsing.push(lease.finish());
  }
  await Promise.all(parsing);
  assert.deepStrictEqual(seen, ["a/1", "a/2", "a/3"]);
  assert.deepStrictEqual(await state(f, "a/1", "a/2", "a/3"), ["leased", "done", "done"]);
});

scene("with a gate, the host is free while its pages are fetched", async ({ f }) => {
  await f.discover("c", uris("a/1", "a/2", "a/3"));
  const seen: string[] = [];
  for await (const lease of f.leases({ execution: "c", uris: 1, gate: 1, lease: 60_000, idle: 200 })) {
    seen.push(text(lease));
    const [other] = await f.next({ execution: "c", uris: 1, gate: 1, lease: 60_000, block: 1000 });
    if (other) await f.done(other, "c");
    lease.done();
    if (seen.length === 2) {
      await f.discover("c", uris("a/4"));
      break;
    }
  }
  for await (const lease of f.leases({ execution: "c", uris: 1, gate: 1 })) {
    assert.strictEqual(text(lease), "a/4");
    break; // gives it back
  }
  assert.deepStrictEqual(await state(f, "a/1", "a/2", "a/3", "a/4"), ["done", "done", "done", "queued"]);
});

scene("a lease that expired is reported, and the loop goes on", async ({ f }) => {
  await f.discover("c", uris("a/1"));
  const lost: string[] = [];
  let times = 0;
  const onLost = (lease: HeldLease) => void lost.push(text(lease));
  for await (const lease of f.leases({ execution: "c", uris: 1, lease: 100, max: 1, idle: 200, onLost })) {
    if (times++ === 0) {
      // Another worker gets the lease after its deadline.
      const [other] = await f.next({ block: 5000, lease: 60_000 });
      assert.ok(other);
      assert.deepStrictEqual([await lease.extend(1000), await lease.later(1000)], [false, false]);
      lease.done();
      setTimeout(() => void f.release(other, { delay: 0 }), 50);
    } else {
      await lease.extend(60_000);
      lease.done();
    }
  }
  assert.deepStrictEqual([lost, times], [["a/1"], 2]);
  assert.deepStrictEqual(await state(f, "a/1"), ["done"]);
});

// Options of ioredis, then of node-redis. Each limit is shorter than the wait.
const IMPATIENT = {
  commandTimeout: 150,
  socketTimeout: 400,
  socket: { socketTimeout: 400, reconnectStrategy: () => 10 },
  commandOptions: { timeout: 150 },
};

scene("a call that waits meets no shorter timeout, and others do not wait for it", async ({ f, frontier }) => {
  const waiting = f.next({ block: 20_000 });
  const claiming = f.next({ block: 900 }); // a second wait at the same time
  await until("both wait", async () => (await f.info()).waiters === 2);
  assert.deepStrictEqual(await claiming, []);
  const other = await frontier();
  await other.addUri("c", uris("a/1"));
  const [lease] = await waiting;
  assert.strictEqual(String(lease?.uris[0]?.uri), "a/1");
}, IMPATIENT);

scene("of workers that capture the same payload, one stores it", async ({ d }) => {
  const stored: string[] = [];
  const hash = `sha256:${"ab".repeat(32)}`;
  const worker = (n: number) => d.capture("c", hash, {}, async (c) => {
    if (c.original) {
      assert.strictEqual(c.original.size, 5000);
      await c.revisit(600);
      return "revisit";
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    await c.add({ date: "20260319102015123", url: `https://e/${n}`, size: 5000 });
    stored.push(`https://e/${n}`);
    return "response";
  });
  const results = await Promise.all([1, 2, 3, 4, 5].map(worker));
  assert.deepStrictEqual(results.sort(), ["response", "revisit", "revisit", "revisit", "revisit"]);
  const { hashes, totalUrls, dupeUrls, conservedSize } = await d.crawlStats("c");
  assert.deepStrictEqual({ hashes, totalUrls, dupeUrls, conservedSize }, { hashes: 1, totalUrls: 5, dupeUrls: 4, conservedSize: 4 * 4400 });
});

scene("an exception and a missing add release the claim", async ({ d }) => {
  const hash = `sha256:${"cd".repeat(32)}`;
  await assert.rejects(d.capture("c", hash, {}, () => { throw new Error("no space"); }), /no space/);
  await d.capture("c", hash, {}, () => {});
  const claim = await d.claim("c", hash, { px: 1000 });
  assert.strictEqual(claim.state, "claimed");
  // Without time to wait, the body stores the payload without a claim.
  await d.capture("c", hash, { wait: 0 }, (c) => c.add({ date: "20260319102015", url: "u", size: 1 }));
  assert.strictEqual((await d.crawlStats("c")).hashes, 1);
});

scene("a worker that lost its claim gets the record of the other one", async ({ d }) => {
  const hash = `sha256:${"ef".repeat(32)}`;
  const attempts: string[] = [];
  await d.capture("c", hash, { px: 50 }, async (c) => {
    attempts.push(`${c.attempt} ${c.original?.url ?? "new"}`);
    if (c.original) return c.revisit(1);
    const other = await d.claim("c", hash, { px: 60_000, block: 5000 });
    assert.ok(other.state === "claimed");
    const late = c.add({ date: "20260319102015", url: "mine", size: 9 });
    await assert.rejects(late, StaleError);
    await d.add("c", [{ hash, date: "20260319102015", url: "theirs", size: 9 }], { token: other.token });
    return late;
  });
  assert.deepStrictEqual(attempts, ["1 new", "2 theirs"]);
  const { totalUrls, dupeUrls } = await d.crawlStats("c");
  assert.deepStrictEqual([totalUrls, dupeUrls], [2, 1]);
});

test("a connection on which a reply is overdue is replaced", async () => {
  await Promise.all(NEWEST.map(async (kind) => {
    const relay = await Relay.to(server.port);
    const { client, close } = await kind.open(relay.port);
    const f = new Frontier(client, `{stalled-${count++}}:`);
    await f.next({ block: 1 }); // connects
    relay.stall();
    assert.deepStrictEqual(await f.next({ block: 300 }), []);
    await close();
    await relay.stop();
  }));
});

for (const kind of KINDS) {
  test(`${kind.name}: calls are repeated after lost connections, and count once`, async () => {
    const relay = await Relay.to(server.port);
    const prefix = `{cut-${count++}}:`;
    const { client, close } = await kind.open(relay.port);
    const d = new Dedupe(client, prefix);
    const f = new Frontier(client, prefix);
    const cutting = setInterval(() => relay.cut(), 40);
    try {
      const each = async (n: number) => {
        const hash = "sha256:" + String(n).padStart(64, "0");
        await d.add("c", [{ hash, date: "20260319102015", url: `u${n}`, size: 5 }]);
        await d.revisit("c", [{ hash, size: 1 }]);
        await f.add("c", [{ group: `g${n % 7}` }]);
      };
      // Ten batches of six concurrent calls.
      for (let n = 0; n < 60; n += 6) await Promise.all([0, 1, 2, 3, 4, 5].map((i) => each(n + i)));
      await f.next({ block: 200, group: undefined as never, lease: 1 });
    } finally {
      clearInterval(cutting);
    }
    const { hashes, totalUrls, dupeUrls } = await d.crawlStats("c");
    assert.deepStrictEqual([hashes, totalUrls, dupeUrls], [60, 120, 60]);
    assert.strictEqual((await f.executionInfo("c")).uris, 60);
    await close();
    await relay.stop();
  });
}
