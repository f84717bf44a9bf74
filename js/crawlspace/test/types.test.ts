// The declarations accept the clients of all supported versions. The compiler checks this file.

import { test } from "node:test";

import { Dedupe, Frontier, Tags, type RedisClient } from "crawlspace";
import { Cluster, Redis } from "ioredis";
import { Redis as Redis5 } from "ioredis5";
import OldestRedis from "ioredis-oldest";
import { createClient, createCluster } from "redis";
import { createClient as createClient4, createCluster as createCluster4 } from "redis4";
import { createClient as createClient5, createCluster as createCluster5 } from "redis5";
import { createClient as createOldest } from "redis-oldest";

test("clients of all versions have the right type", () => {
  const options = { lazyConnect: true };
  const nodes = { rootNodes: [] };
  const clients: RedisClient[] = [
    new Redis(options),
    new Redis({ ...options, protocol: 3, replyMapping: "resp3" }),
    new Cluster([], options),
    new Redis5(options),
    new OldestRedis(options),
    createClient(),
    createClient({ RESP: 2 }),
    createCluster(nodes),
    createClient4(),
    createCluster4(nodes),
    createClient5(),
    createCluster5(nodes),
    createOldest(),
  ];
  for (const client of clients) {
    for (const Family of [Frontier, Dedupe, Tags]) new Family(client, "{a}:");
    if ("disconnect" in client && "status" in client) client.disconnect();
  }
});
