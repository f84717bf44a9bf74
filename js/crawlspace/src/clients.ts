// Adapters for ioredis and node-redis. Each sends a command as an array, and returns the reply with
// strings as bytes and maps as flat arrays.

import { isAscii } from "node:buffer";

/** An argument that is sent unchanged. */
export type Word = string | Buffer;

/** Any function. */
type Anything = (...args: never[]) => unknown;

/** The parts of ioredis (`Redis` and `Cluster`) that this package uses. */
export interface IoredisClient {
  readonly status: string;
  readonly callBuffer: Anything;
  readonly sendCommand: Anything;
  readonly duplicate: Anything;
  readonly disconnect: Anything;
  readonly on: Anything;
}

/** The parts of node-redis (clients and clusters) that this package uses. */
export interface NodeRedisClient {
  readonly sendCommand: Anything;
  readonly duplicate: Anything;
  readonly connect: Anything;
  readonly on: Anything;
}

/** A client of ioredis or node-redis, for a single server or for a cluster. */
export type RedisClient = IoredisClient | NodeRedisClient;

/** A connection to a server or a cluster. */
export interface Port {
  /** Sends a command, whose name is the first word and whose key is the second. */
  send(words: Word[]): Promise<unknown>;
  /** Returns a connection with the same settings but without time limits for replies. */
  duplicate(): Promise<Port>;
  /** Returns true if the client was closed and does not connect again by itself. */
  closed(): boolean;
  /** Calls the listener when the client is closed. */
  onClose(listener: () => void): void;
  /** Closes the connection without waiting for replies. */
  close(): void;
  /** True if names in maps lose bytes that are not UTF-8. */
  readonly losesNames: boolean;
}

/** Returns the adapter of a client. */
export function portOf(client: RedisClient): Port {
  if (typeof client !== "object" || client === null) {
    throw new TypeError(`expected a client of ioredis or node-redis, not ${client}`);
  }
  if (typeof (client as IoredisClient).callBuffer === "function") {
    return new Ioredis(client as unknown as IoredisParts);
  }
  if (typeof client.sendCommand === "function" && typeof client.duplicate === "function") {
    return new NodeRedis(client as unknown as NodeRedisParts);
  }
  throw new TypeError("the client is neither an ioredis client nor a node-redis client");
}

/** Returns true for an error that the server sent, and false for a failure of the connection. */
export function isReply(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  if (error.name === "ReplyError") return true;
  // node-redis does not set the names of its errors, and several versions of it may be installed.
  for (let type = Object.getPrototypeOf(error); type !== null; type = Object.getPrototypeOf(type)) {
    if (type.constructor?.name === "ErrorReply") return true;
  }
  return false;
}

/** Both clients send text in one piece, which is faster. Long bytes are not worth the conversion. */
const SHORT = 256;

/** Converts short arguments that are ASCII to text, in place. */
function asText(words: Word[]): Word[] {
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as Word;
    if (typeof word === "string") continue;
    if (!Buffer.isBuffer(word)) throw new TypeError(`argument ${i} of ${words[0]} is ${word}: expected text or a Buffer`);
    if (word.length <= SHORT && isAscii(word)) words[i] = word.toString("latin1", 0, word.length);
  }
  return words;
}

type Options = Record<string, unknown>;

interface IoredisParts {
  readonly status: string;
  readonly isCluster?: boolean | undefined;
  readonly options: Options & { redisOptions?: Options; replyMapping?: string };
  callBuffer(this: unknown, command: string, words: Word[]): Promise<unknown>;
  sendCommand(command: { getKeys?: () => Word[] }): unknown;
  duplicate(...overrides: unknown[]): IoredisParts;
  disconnect(): void;
  on(event: string, listener: () => void): unknown;
}

const noop = () => {};

/** Time limit for opening a connection, in milliseconds. */
const CONNECT = 10_000;

/** Settings of ioredis for blocked commands: no timeouts; maps are returned as arrays, whose names are bytes. */
const patient = { commandTimeout: undefined, socketTimeout: undefined, replyMapping: "legacy" };

class Ioredis implements Port {
  readonly losesNames: boolean;
  /** Receiver (`this`) on which `callBuffer` is called, instead of the client. */
  private readonly sender: object;
  private key: Word | undefined;

  constructor(private readonly client: IoredisParts) {
    const { options } = client;
    const mapping = client.isCluster ? options.redisOptions?.["replyMapping"] : options.replyMapping;
    this.losesNames = mapping === "resp3";
    const keys = () => {
      const key = this.key;
      return () => [key ?? ""];
    };
    this.sender = {
      options: { showFriendlyErrorStack: options["showFriendlyErrorStack"], enableAutoPipelining: false },
      // The table of keys in ioredis lacks commands of modules, so a cluster would ask any node.
      sendCommand: client.isCluster
        ? (command: { getKeys?: () => Word[] }) => {
            command.getKeys = keys();
            return client.sendCommand(command);
          }
        : (command: { getKeys?: () => Word[] }) => client.sendCommand(command),
    };
  }

  send(words: Word[]): Promise<unknown> {
    this.key = words[1];
    return this.client.callBuffer.call(this.sender, words[0] as string, asText(words).slice(1));
  }

  async duplicate(): Promise<Port> {
    const { client } = this;
    const { redisOptions } = client.options;
    const copy = client.isCluster
      ? client.duplicate([], { redisOptions: { ...redisOptions, ...patient } })
      : client.duplicate(patient);
    copy.on("error", noop); // each command reports its own error
    return new Ioredis(copy);
  }

  closed(): boolean {
    return this.client.status === "end";
  }

  onClose(listener: () => void): void {
    this.client.on("end", listener);
  }

  close(): void {
    this.client.disconnect();
  }
}

interface NodeRedisParts {
  readonly isOpen?: boolean | undefined;
  readonly options?: Options & { socket?: Options };
  readonly _options?: Options & { defaults?: Options & { socket?: Options } };
  readonly nodeClient?: unknown | undefined;
  sendCommand(...args: unknown[]): Promise<unknown>;
  duplicate(overrides?: Options): NodeRedisParts;
  connect(): Promise<unknown>;
  disconnect?(): Promise<unknown>;
  destroy?(): void;
  on(event: string, listener: () => void): unknown;
}

/** Options of a command: node-redis 4 reads the first, later versions the second (simple strings, bulk strings, maps). */
const asBytes = {
  returnBuffers: true,
  typeMapping: { 43: Buffer, 36: Buffer, 61: Buffer, 44: Buffer, 37: Array },
};

class NodeRedis implements Port {
  readonly losesNames = false;
  private readonly cluster: boolean;
  private ended = false;

  constructor(
    private readonly client: NodeRedisParts,
    private readonly options: Options = asBytes,
  ) {
    this.cluster = typeof client.nodeClient === "function";
  }

  send(words: Word[]): Promise<unknown> {
    asText(words);
    return this.cluster
      ? this.client.sendCommand(words[1], false, words, this.options)
      : this.client.sendCommand(words, this.options);
  }

  async duplicate(): Promise<Port> {
    const { client } = this;
    const overrides: Options = {};
    if (this.cluster) {
      // Otherwise the connection would wait for all masters, also dead ones.
      overrides["minimizeConnections"] = true;
      const defaults = client._options?.defaults;
      if (defaults?.socket?.["socketTimeout"] !== undefined) {
        overrides["defaults"] = { ...defaults, socket: { ...defaults.socket, socketTimeout: undefined } };
      }
    } else if (client.options?.socket?.["socketTimeout"] !== undefined) {
      overrides["socket"] = { ...client.options.socket, socketTimeout: undefined };
    }
    const copy = client.duplicate(overrides);
    copy.on("error", noop); // each command reports its own error
    const port = new NodeRedis(copy, { ...asBytes, timeout: undefined });
    // node-redis may connect again after its first attempt has failed, and after it was closed meanwhile.
    copy.on("ready", () => port.ended && port.close());
    // A client may try without end to connect to a dead node.
    let timer: NodeJS.Timeout | undefined;
    const overdue = new Promise<never>((_, fail) => {
      timer = setTimeout(() => fail(new Error(`no connection within ${CONNECT / 1000} seconds`)), CONNECT);
    });
    try {
      await Promise.race([copy.connect(), overdue]);
    } catch (error) {
      port.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
    return port;
  }

  closed(): boolean {
    return this.client.isOpen === false;
  }

  onClose(listener: () => void): void {
    this.client.on(this.cluster ? "disconnect" : "end", listener);
  }

  close(): void {
    const { client } = this;
    this.ended = true;
    // Version 4 has `disconnect`, later ones `destroy`; either fails if the connection is closed already.
    try {
      if (client.destroy) client.destroy();
      else client.disconnect?.()?.catch(noop);
    } catch {
      // closed already
    }
  }
}
