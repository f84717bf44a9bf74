// The clients and versions of them that the package supports.

import type { RedisClient } from "crawlspace";

export interface Opened {
  client: RedisClient;
  close: () => Promise<void>;
}

export interface Kind {
  name: string;
  /** Connects to a server, or to the cluster of this node. */
  open: (port: number, cluster?: boolean, options?: Record<string, unknown>) => Promise<Opened>;
}

function named(client: string, version: string, options: Record<string, unknown>): string {
  const shown = Object.entries(options).map(([option, value]) => `, ${option} ${value}`);
  return `${client} ${version}${shown.join("")}`;
}

function ioredis(module: string, protocol: Record<string, unknown> = {}): Kind {
  const { default: Redis } = require(module);
  const { Cluster } = Redis;
  const { version } = require(`${module}/package.json`);
  return {
    name: named("ioredis", version, protocol),
    async open(port, cluster, options = {}) {
      const settings = { ...protocol, ...options };
      const client = cluster
        ? new Cluster([{ host: "127.0.0.1", port }], { redisOptions: settings })
        : new Redis({ host: "127.0.0.1", port, ...settings });
      client.on("error", () => {});
      return { client, close: async () => client.disconnect() };
    },
  };
}

function nodeRedis(module: string, protocol: Record<string, unknown> = {}): Kind {
  const { createClient, createCluster } = require(module);
  const { version } = require(`${module}/package.json`);
  return {
    name: named("node-redis", version, protocol),
    async open(port, cluster, options = {}) {
      const { socket: more, ...others } = options as { socket?: Record<string, unknown> };
      const socket = { host: "127.0.0.1", port, ...more };
      const client = cluster
        ? createCluster({ rootNodes: [{ socket }], defaults: { socket: more ?? {} }, ...protocol, ...others })
        : createClient({ socket, ...protocol, ...others });
      client.on("error", () => {});
      await client.connect();
      return { client, close: async () => (client.destroy ? client.destroy() : client.disconnect()) };
    },
  };
}

/** The newest version of each client. */
export const NEWEST: Kind[] = [ioredis("ioredis"), nodeRedis("redis")];

/** Every version and protocol. */
export const KINDS: Kind[] = [
  ioredis("ioredis-oldest"),
  ioredis("ioredis5"),
  ioredis("ioredis", { protocol: 2 }),
  ioredis("ioredis", { protocol: 3 }),
  ioredis("ioredis", { protocol: 3, replyMapping: "resp3" }),
  nodeRedis("redis-oldest"),
  nodeRedis("redis4"),
  nodeRedis("redis5", { RESP: 2 }),
  nodeRedis("redis5", { RESP: 3 }),
  nodeRedis("redis", { RESP: 2 }),
  nodeRedis("redis", { RESP: 3 }),
];
