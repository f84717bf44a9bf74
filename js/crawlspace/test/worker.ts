// A crawler of crash.test.ts: fetches the pages of a frontier and stores their payloads once. Prints the URL of each page
// that it fetches.

import { createHash } from "node:crypto";

import { Dedupe, Frontier } from "crawlspace";

import { NEWEST, type Kind } from "./clients.js";

async function main(port: number, clustered: boolean, kind: Kind, payloads: number): Promise<void> {
  const { client, close } = await kind.open(port, clustered);
  const frontier = new Frontier(client, "{crawl}:");
  const dedupe = new Dedupe(client, "{crawl}:");
  const stop = new AbortController();
  process.once("SIGTERM", () => stop.abort());
  // In the cluster, no worker dies, and both times are much longer than a failover.
  const [lease, px] = clustered ? [60_000, 20_000] : [10_000, 3000];
  const leases = frontier.leases({ execution: "crawl-1", uris: 1, lease, max: 1, signal: stop.signal });
  for await (const held of leases) {
    const url = String(held.uri);
    process.stdout.write(`${url}\n`);
    const payload = Number(url.split("/")[1]) % payloads;
    const hash = "sha256:" + createHash("sha256").update(String(payload)).digest("hex");
    await dedupe.capture("crawl-1", hash, { px }, (c) =>
      c.original ? c.revisit(100) : c.add({ date: "20260319102015123", url, size: 1000 }));
    held.done({ status: 200 });
  }
  await close();
}

const [port, clustered, kind, payloads] = process.argv.slice(2).map(Number) as [number, number, number, number];
main(port, clustered === 1, NEWEST[kind] as Kind, payloads).catch((error) => {
  console.error(error);
  process.exit(1);
});
