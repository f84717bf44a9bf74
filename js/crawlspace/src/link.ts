// Sends commands: retries them after connection failures, and opens connections for commands that wait.

import { portOf, isReply, type Port, type RedisClient, type Word } from "./clients.js";
import { ConnectionError, errorOf, type CrawlspaceError } from "./errors.js";

/** Settings that all three families share. */
export interface LinkOptions {
  /**
   * Time in milliseconds for which a command is repeated while the server is unreachable, restarts, or
   * changes its role; 60 000 by default. 0 repeats nothing.
   */
  readonly retryFor?: number | undefined;
}

/** The command may be repeated although the server may have executed it. */
export const REPEAT = 1;
/** The command may wait or take long, so it gets a connection of its own. */
export const WAIT = 2;

/** Errors after which the server has not executed the command. */
const UNDONE = new Set(["TRYAGAIN", "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "MOVED", "ASK"]);
/** Time in milliseconds that a reply may be late before the connection counts as dead. */
const GRACE = 10_000;
/** Interval in milliseconds at which the connections of commands that wait are checked. */
const WATCH = 500;
const FIRST_PAUSE = 20;
const LAST_PAUSE = 1000;

/** Sends the commands of one client, with retries. */
export class Link {
  private readonly port: Port;
  private readonly spare: Spare;
  private readonly retryFor: number;

  constructor(client: RedisClient, options: LinkOptions) {
    this.port = portOf(client);
    this.spare = spareOf(client, this.port);
    this.retryFor = options.retryFor ?? 60_000;
  }

  /** True if names in maps lose bytes that are not UTF-8, unless the command has a connection of its own. */
  get losesNames(): boolean {
    return this.port.losesNames;
  }

  /** Sends a command. `block` is the time in milliseconds that it may wait in the server; 0 means no limit. */
  call(words: Word[], flags = 0, block = 0): Promise<unknown> {
    return this.once(words, flags, block).catch((error) => this.again(words, flags, block, error));
  }

  /** Closes the connections on which commands waited. The client itself stays open. */
  close(): void {
    this.spare.close();
  }

  private once(words: Word[], flags: number, block: number): Promise<unknown> {
    return flags & WAIT ? this.spare.call(words, block) : this.port.send(words);
  }

  private async again(words: Word[], flags: number, block: number, first: unknown): Promise<unknown> {
    const end = Date.now() + this.retryFor;
    let error = first;
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LAST_PAUSE)) {
      const failure = failureOf(error);
      const { code } = failure;
      const undone = isReply(error) && UNDONE.has(code);
      const unclear = code === "UNBLOCKED" || code === "CONNECTION";
      if (!undone && !(unclear && flags & REPEAT)) throw failure;
      if (Date.now() + pause > end || this.port.closed()) throw failure;
      // Jitter: the workers of a crawl must not all reconnect at the same time.
      await sleep(pause * (0.5 + Math.random() / 2));
      try {
        return await this.once(words, flags, block);
      } catch (next) {
        error = next;
      }
    }
  }
}

function failureOf(error: unknown): CrawlspaceError {
  if (isReply(error)) return errorOf(error.message, error);
  const message = error instanceof Error ? error.message : String(error);
  return new ConnectionError("CONNECTION", message, { cause: error });
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A command that waits. */
interface Waiting {
  /** Time at which its reply is overdue. */
  readonly overdue: number;
  /** Fails the command. Closing a connection does not always do that: a cluster client may be looking for the node. */
  readonly fail: (error: Error) => void;
}

/** Connections of a client for commands that wait, so that the client's other commands do not wait with them. */
class Spare {
  private idle: Port[] = [];
  /** Connections on which a command waits. */
  private readonly busy = new Map<Port, Waiting>();
  private watch: NodeJS.Timeout | undefined;

  constructor(private readonly port: Port) {
    port.onClose(() => this.close());
  }

  call(words: Word[], block: number): Promise<unknown> {
    const port = this.idle.pop();
    return port ? this.on(port, words, block) : this.port.duplicate().then((port) => this.on(port, words, block));
  }

  private on(port: Port, words: Word[], block: number): Promise<unknown> {
    let sent: Promise<unknown>;
    try {
      sent = port.send(words);
    } catch (error) {
      this.idle.push(port); // nothing was sent
      throw error;
    }
    const overdue = block > 0 ? Date.now() + block + GRACE : Infinity;
    const failed = new Promise<never>((_, fail) => this.busy.set(port, { overdue, fail }));
    this.watch ??= setInterval(() => this.look(), WATCH).unref();
    return Promise.race([sent, failed]).then(
      (reply) => {
        this.leave(port, true);
        return reply;
      },
      (error) => {
        this.leave(port, isReply(error));
        throw error;
      },
    );
  }

  private leave(port: Port, usable: boolean): void {
    // `close` has emptied `busy` if it was called in the meantime.
    if (this.busy.delete(port) && usable) this.idle.push(port);
    else port.close();
  }

  /** Closes connections whose reply is overdue, and idle ones if the client was closed. */
  private look(): void {
    const now = Date.now();
    for (const { overdue, fail } of this.busy.values()) if (now > overdue) fail(new Error("the reply is overdue"));
    // node-redis emits `end` only if it was connected at that time, so check its state.
    if (this.port.closed()) this.closeIdle();
    if (this.idle.length === 0 && this.busy.size === 0) {
      clearInterval(this.watch);
      this.watch = undefined;
    }
  }

  close(): void {
    for (const [port, { fail }] of this.busy) {
      port.close();
      fail(new Error("the connection was closed"));
    }
    this.busy.clear();
    this.closeIdle();
  }

  private closeIdle(): void {
    for (const port of this.idle) port.close();
    this.idle = [];
  }
}

const spares = new WeakMap<RedisClient, Spare>();

function spareOf(client: RedisClient, port: Port): Spare {
  let spare = spares.get(client);
  if (!spare) {
    spare = new Spare(port);
    spares.set(client, spare);
  }
  return spare;
}
