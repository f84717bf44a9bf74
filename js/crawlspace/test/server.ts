// Servers with the module, for tests. The environment names the module (CRAWLSPACE_MODULE) and may name
// the server (REDIS_SERVER).

import { AssertionError } from "node:assert";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, createConnection, type Server as NetServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Redis } from "ioredis";

const program = process.env["REDIS_SERVER"] ?? "redis-server";
const library = process.env["CRAWLSPACE_MODULE"];

export async function freePort(): Promise<number> {
  // The bus port of a cluster node is 10 000 higher.
  for (;;) {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    server.close();
    await once(server, "close");
    if (port < 55_000) return port;
  }
}

export class Server {
  private constructor(
    readonly port: number,
    private readonly folder: string,
    private readonly words: string[],
    private process: ChildProcess,
  ) {}

  /** Starts a server with these arguments, whose data survive a restart. */
  static async start(...args: string[]): Promise<Server> {
    if (library === undefined) throw new Error("set CRAWLSPACE_MODULE to the path of libcrawlspace.so");
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), "crawlspace-js-"));
    const simulated = args.includes("simulated");
    const words = [
      ...["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""],
      ...["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"],
      ...args.filter((arg) => arg !== "simulated"),
      ...["--loadmodule", library, ...(simulated ? ["chg-simulated-time", "yes"] : [])],
    ];
    const server = new Server(port, folder, words, launch(words));
    await server.ready();
    return server;
  }

  connect(): Redis {
    return new Redis({ port: this.port, lazyConnect: true });
  }

  /** Sends a command on a connection of its own. */
  async call(name: string, ...words: (string | number)[]): Promise<unknown> {
    const redis = new Redis({ port: this.port, retryStrategy: null as never });
    redis.on("error", () => {});
    try {
      return await redis.call(name, ...words);
    } finally {
      redis.disconnect();
    }
  }

  /** Returns true for a replica that has the data of its master. */
  async inSync(): Promise<boolean> {
    return String(await this.call("INFO", "replication")).includes("master_link_status:up");
  }

  async isMaster(): Promise<boolean> {
    return ((await this.call("ROLE")) as unknown[])[0] === "master";
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await gone;
  }

  async restart(): Promise<void> {
    await this.kill();
    this.process = launch(this.words);
    await this.ready();
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async ready(): Promise<void> {
    await until("the server answers", async () => (await this.call("PING")) === "PONG");
  }
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const server of running) server.kill("SIGKILL");
});

function launch(words: string[]): ChildProcess {
  const server = spawn(program, words, { stdio: "ignore" });
  running.add(server);
  server.on("exit", () => running.delete(server));
  return server;
}

/** Repeats a check until it holds. Fails after a minute, or the given time in milliseconds. */
export async function until(what: string, holds: () => Promise<boolean>, ms = 180_000): Promise<void> {
  const end = Date.now() + ms;
  let last: unknown;
  while (Date.now() < end) {
    try {
      if (await holds()) return;
    } catch (error) {
      if (error instanceof AssertionError) throw error;
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`never: ${what}`, { cause: last });
}

/** A cluster of three masters, and a replica of the one that has a given key. */
export class Cluster {
  private constructor(
    readonly nodes: Server[],
    /** The node that has the key, and its replica, in any order. */
    private readonly pair: readonly [Server, Server] | undefined,
  ) {}

  static async start(options: { replicaFor?: string; args?: string[] } = {}): Promise<Cluster> {
    const count = options.replicaFor === undefined ? 3 : 4;
    const args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "15000", ...(options.args ?? [])];
    // Forbid failovers, because a master on a busy machine may look dead; `killMaster` allows the one that it needs.
    args.push("--cluster-replica-no-failover", "yes");
    const all = await Promise.all(Array.from({ length: count }, () => Server.start(...args)));
    const [first, ...others] = all as [Server, ...Server[]];
    for (const [i, range] of [[0, 5460], [5461, 10922], [10923, 16383]].entries()) {
      await all[i]?.call("CLUSTER", "ADDSLOTSRANGE", ...(range as [number, number]));
      await all[i]?.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
    }
    for (const other of others) await first.call("CLUSTER", "MEET", "127.0.0.1", other.port);
    for (const node of all) {
      await until("every node knows the others", async () => {
        const nodes = String(await node.call("CLUSTER", "NODES"));
        return nodes.trim().split("\n").length === count && !nodes.includes("handshake");
      });
    }
    let pair: [Server, Server] | undefined;
    if (options.replicaFor !== undefined) {
      const slot = Number(await first.call("CLUSTER", "KEYSLOT", options.replicaFor));
      const owner = all[slot <= 5460 ? 0 : slot <= 10922 ? 1 : 2] as Server;
      const replica = all[3] as Server;
      const id = String(await owner.call("CLUSTER", "MYID"));
      await until("the replica knows its master", async () => (await replica.call("CLUSTER", "REPLICATE", id)) === "OK");
      await until("the replica is in sync", () => replica.inSync());
      pair = [owner, replica];
    }
    for (const node of all) {
      await until("the cluster is whole", async () => {
        const info = String(await node.call("CLUSTER", "INFO"));
        return info.includes("cluster_state:ok") && info.includes("cluster_slots_ok:16384");
      });
    }
    return new Cluster(all, pair);
  }

  /** Makes the replica a master, and the master its replica. The nodes vote for another failover only half a minute later. */
  async failover(): Promise<void> {
    const [one, other] = this.pair as readonly [Server, Server];
    const [from, to] = (await one.isMaster()) ? [one, other] : [other, one];
    await until("the failover begins", async () => (await to.call("CLUSTER", "FAILOVER")) === "OK");
    await until("the replica is a master", () => to.isMaster());
    await until("the master is a replica", () => from.inSync());
  }

  /**
   * Kills the master, and waits until the cluster has made its replica a master. Replication is asynchronous. Therefore
   * the master executes no writes until its replica has all earlier ones, and is killed then, so that no confirmed
   * write is lost.
   */
  async killMaster(): Promise<void> {
    const [one, other] = this.pair as readonly [Server, Server];
    const [master, replica] = (await one.isMaster()) ? [one, other] : [other, one];
    const id = String(await master.call("CLUSTER", "MYID"));
    for (const node of this.nodes.filter((node) => node !== master)) {
      await until("every node knows the replica", async () =>
        String(await node.call("CLUSTER", "NODES")).includes(`slave,nofailover ${id}`));
    }
    await master.call("CLIENT", "PAUSE", 60_000, "WRITE");
    const offset = async (node: Server, field: string) =>
      String(await node.call("INFO", "replication")).split(`${field}:`)[1]?.split("\r")[0];
    await until("the replica has all writes", async () =>
      (await offset(master, "master_repl_offset")) === (await offset(replica, "slave_repl_offset")));
    await replica.call("CONFIG", "SET", "cluster-replica-no-failover", "no");
    await master.kill();
    await until("the replica is a master", () => replica.isMaster());
  }

  /** Port of a node that keeps its role. */
  get port(): number {
    return (this.nodes.find((node) => !this.pair?.includes(node)) as Server).port;
  }

  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.stop()));
  }
}

/** Forwards connections to a server that can be changed. */
export class Relay {
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly listener: NetServer,
    readonly port: number,
    private target: number,
  ) {}

  static async to(target: number): Promise<Relay> {
    const listener = createServer().listen(0, "127.0.0.1");
    await once(listener, "listening");
    const relay = new Relay(listener, (listener.address() as { port: number }).port, target);
    listener.on("connection", (client) => {
      const server = createConnection(relay.target, "127.0.0.1");
      for (const [from, to] of [[client, server], [server, client]] as const) {
        relay.sockets.add(from);
        from.setNoDelay(true);
        from.pipe(to);
        from.on("error", () => to.destroy());
        from.on("close", () => {
          relay.sockets.delete(from);
          to.destroy();
        });
      }
    });
    return relay;
  }

  /** Forwards new connections to this port. */
  point(target: number): void {
    this.target = target;
  }

  /** Forwards nothing more on the present connections, and leaves them open. */
  stall(): void {
    for (const socket of this.sockets) socket.unpipe().pause();
  }

  /** Closes all connections. */
  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    this.listener.close();
  }
}
