// Compares the calls and helpers of the package with the same commands sent by the client, side by side in one run:
//
//     CRAWLSPACE_MODULE=… npm run bench
//
// Prints the CPU time of this process and the throughput, as the package relative to the client. `make bench ONLY=P2`
// reads the lines.

import { createHash } from "node:crypto";

import { Dedupe, Frontier } from "crawlspace";

import { NEWEST, type Kind } from "./clients.js";
import { Server } from "./server.js";

const ROUNDS = 12;
/** Rounds that are not measured, in which the engine compiles the code. */
const WARM = 6;
/** Pages and payloads of a round. */
const PAGES = 1000;
const digest = (n: number) => "sha256:" + createHash("sha256").update(String(n)).digest("hex");

type Send = (...words: (string | Buffer)[]) => Promise<any>;

interface Cost {
  cpu: number;
  time: number;
}

/** Runs both sides in turn, and returns the median of the ratios of their costs. */
async function compare(name: string, ours: (round: number) => Promise<void>, theirs: (round: number) => Promise<void>): Promise<void> {
  const measure = async (side: (round: number) => Promise<void>, round: number): Promise<Cost> => {
    const begun = performance.now();
    const before = process.cpuUsage();
    await side(round);
    const { user, system } = process.cpuUsage(before);
    return { cpu: (user + system) / 1000, time: performance.now() - begun };
  };
  const ratios: Cost[] = [];
  let [first, second]: Cost[] = [];
  for (let round = -WARM; round < ROUNDS; round++) {
    // Both sides alternate in beginning a round. The first rounds only warm up.
    if (round % 2 === 0) {
      first = await measure(ours, round);
      second = await measure(theirs, round);
    } else {
      second = await measure(theirs, round);
      first = await measure(ours, round);
    }
    if (round >= 0) ratios.push({ cpu: first.cpu / second.cpu, time: second.time / first.time });
  }
  const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]?.toFixed(2);
  const [cpu, throughput] = [median(ratios.map(({ cpu }) => cpu)), median(ratios.map(({ time }) => time))];
  console.log(`${name}; CPU ${cpu}, throughput ${throughput}`);
}

async function bench(kind: Kind, port: number): Promise<void> {
  const { client, close } = await kind.open(port);
  const raw: any = client;
  const node = raw.callBuffer === undefined;
  const waiting: any = raw.duplicate();
  if (node) await waiting.connect();
  const send: Send = (name, ...words) => (node ? raw.sendCommand([name, ...words]) : raw.call(name, ...words));
  // The helpers return bytes as bytes, so the client does the same.
  const asBytes = { typeMapping: { 36: Buffer } };
  const bytes = (on: any): Send => (name, ...words) =>
    node ? on.sendCommand([name, ...words], asBytes) : on.callBuffer(name, ...words);
  const [now, wait] = [bytes(raw), bytes(waiting)];

  const dedupe = new Dedupe(client, "{d}:");
  const hashes = Array.from({ length: 10_000 }, (_, n) => digest(n));
  const records = hashes.map((hash, n) => ({ hash, date: "20260319102015123", url: `https://example.com/a/page/${n}`, size: 5000 }));
  for (let n = 0; n < 10_000; n += 1000) await dedupe.add("c", records.slice(n, n + 1000));
  await dedupe.commit("c").catch(() => {});
  const batches = Array.from({ length: 100 }, (_, n) => hashes.slice(100 * n, 100 * n + 100));
  await compare(`${kind.name}: look-ups of 100 hashes`, async () => {
    for (const batch of batches) await dedupe.lookup(batch);
  }, async () => {
    for (const batch of batches) await send("DEDUPE.LOOKUP", "{d}:", ...batch);
  });
  await compare(`${kind.name}: additions of 100 records`, async (round) => {
    for (let n = 0; n < 100; n++) await dedupe.add(`a${round}`, records.slice(100 * n, 100 * n + 100));
  }, async (round) => {
    for (let n = 0; n < 100; n++) {
      const words = records.slice(100 * n, 100 * n + 100).flatMap(({ hash, date, url, size }) => [hash, "0", date, url, String(size)]);
      await send("DEDUPE.ADD", "{d}:", `b${round}`, "SEQ", "w", String(n + 1), ...words);
    }
  });
  await compare(`${kind.name}: capture`, async (round) => {
    for (let n = 0; n < PAGES; n++) {
      await dedupe.capture(`x${round}`, digest(-1 - n), {}, (c) => c.add({ date: "20260319102015123", url: "https://e/", size: 1 }));
    }
  }, async (round) => {
    for (let n = 0; n < PAGES; n++) {
      const hash = digest(-1 - n);
      const [, token] = await wait("DEDUPE.CLAIM", "{d}:", `y${round}`, hash, "PX", "60000", "BLOCK", "30000");
      await now("DEDUPE.ADD", "{d}:", `y${round}`, "TOKEN", token, "SEQ", "w", String(n + 1), hash, "0", "20260319102015123", "https://e/", "1");
    }
  });

  const fill = async (prefix: string) => {
    const f = new Frontier(client, prefix);
    await f.pack();
    await f.discover("c", Array.from({ length: PAGES }, (_, n) => ({ group: `host-${n}`, uri: `https://host-${n}/` })));
    return f;
  };
  const frontiers = new Map<string, Frontier>();
  for (let round = -WARM; round < ROUNDS; round++) {
    for (const side of ["o", "t"]) frontiers.set(`${side}${round}`, await fill(`{${node}${side}${round}}:`));
  }
  await compare(`${kind.name}: leases`, async (round) => {
    let left = PAGES;
    for await (const lease of (frontiers.get(`o${round}`) as Frontier).leases({ execution: "c", uris: 1, lease: 60_000, max: 1000 })) {
      lease.done({ status: 200 });
      if (--left === 0) break;
    }
  }, async (round) => {
    const prefix = `{${node}t${round}}:`;
    const next = ["LEASE", "60000", "BLOCK", "1000", "URIS", "1", "EXECUTION", "c"];
    let [lease] = await wait("CHG.NEXT", prefix, ...next);
    for (let left = PAGES; left > 0; left--) {
      const [chg, token, , , , execution] = lease;
      const facts = ["ELAPSED", "1", "MAX", "1000", "STATUS", "200", "DONE", execution];
      if (left === 1) await now("CHG.RELEASE", prefix, chg, String(token), ...facts);
      else [, lease] = await wait("CHG.RELEASE", prefix, chg, String(token), ...facts, "NEXT", ...next);
    }
  });
  waiting.destroy?.() ?? waiting.disconnect();
  await close();
}

async function main(): Promise<void> {
  for (const kind of NEWEST) {
    const server = await Server.start("--appendonly", "no");
    try {
      await bench(kind, server.port);
    } finally {
      await server.stop();
    }
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
