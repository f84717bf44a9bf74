import type { RedisClient, Word } from "./clients.js";
import { Leases, type LeasesOptions } from "./leases.js";
import { Link, REPEAT, WAIT, type LinkOptions } from "./link.js";
import { bytes, each, Fields, int, list, maybe, maybeBytes, number, put, text, type Bytes } from "./reply.js";
import { Writers } from "./writers.js";

/** Settings of a {@link Frontier}. */
export interface FrontierOptions extends LinkOptions {
  /** Returns the simulated time in milliseconds, for servers with `chg-simulated-time yes`. */
  readonly now?: (() => number) | undefined;
}

/** A URI that is counted for a group. Times are milliseconds since the epoch; 0 or no time means now. */
export interface Counted {
  readonly group: Bytes;
  readonly at?: number | undefined;
}

/** A URI to queue. */
export interface Item extends Counted {
  readonly uri: Bytes;
  /** Distance from a seed; 0 by default. */
  readonly depth?: number | undefined;
}

/** A URL to queue if it is new. */
export interface Discovery extends Item {
  /** Identifies the request instead of the URI, 1 to 64 bytes. */
  readonly key?: Bytes | undefined;
  /** Bytes that the lease returns, up to 64 KiB. */
  readonly payload?: Bytes | undefined;
}

/** A URL to mark as done, or to fetch at a given time. */
export interface Settlement {
  readonly group: Bytes;
  /** The URL, or its key if it has one. */
  readonly uri: Bytes;
  /** Due time of the URL, in milliseconds since the epoch; `"never"` if it is done. */
  readonly at: number | "never";
  /** New payload of a URL that is due at a time; an empty one removes the payload. By default, it is kept. */
  readonly payload?: Bytes | undefined;
}

/** A state of a known URL. */
export type UriState = "queued" | "leased" | "done" | "given-up";

/** A URL that an execution knows. */
export interface KnownUri {
  readonly state: UriState;
  /** Due time, or -1. */
  readonly due: number;
  /** Status of the last fetch, or -1. */
  readonly status: number;
  /** Number of expired leases; 15 stands for 15 and more. */
  readonly attempts: number;
  /** Time of the last change of its state, rounded down to ten minutes. */
  readonly changed: number;
}

/** Numbers of known URLs by state. */
export interface KnownCounts {
  readonly queued: number;
  readonly leased: number;
  readonly done: number;
  readonly givenUp: number;
  readonly known: number;
}

/** Options of a request for leases. */
export interface NextOptions {
  /** Lifetime of the lease in milliseconds; the server's `crawlspace.chg-lease` by default. */
  readonly lease?: number | undefined;
  /** Time in milliseconds to wait for a due group; 0 waits without a limit. Without it, the call does not wait. */
  readonly block?: number | undefined;
  /** Maximum number of URIs in a lease. Needs a packed frontier. */
  readonly uris?: number | undefined;
  /** Frees the group at once, with this pause in milliseconds. Needs a packed frontier. */
  readonly gate?: number | undefined;
  /** Leases only URIs of this execution. Needs a packed frontier. */
  readonly execution?: Bytes | undefined;
}

/** A leased URI. */
export interface LeasedUri {
  readonly uri: Buffer;
  /** Identifies the URI instead of its bytes, if it was discovered with a key. */
  readonly key: Buffer | null;
  readonly payload: Buffer | null;
  /** Distance from a seed; null in a lease without `uris`, `gate` and `execution`. */
  readonly depth: number | null;
  /** Number of leases of the URI that expired; null in a lease without `uris`, `gate` and `execution`. */
  readonly attempts: number | null;
}

/** A lease of a group. */
export interface Lease {
  readonly group: Buffer;
  readonly token: number;
  /** Deadline of the lease, in milliseconds since the epoch. */
  readonly deadline: number;
  /** Time at which the group became due, in milliseconds since the epoch. */
  readonly due: number;
  /** Number of queued URIs of the group, including the leased ones. */
  readonly queued: number;
  /** Execution of the URIs; null if the frontier only counts them. */
  readonly execution: Buffer | null;
  /** The URIs to fetch; empty if the frontier only counts them. */
  readonly uris: readonly LeasedUri[];
}

/** The facts of a fetch, from which the server computes the pause of the group. Durations are in milliseconds. */
export interface Facts {
  /** End of the pause, instead of facts. */
  readonly at?: number | undefined;
  /** Length of the pause, instead of facts. */
  readonly delay?: number | undefined;
  /** Duration of the fetch. */
  readonly elapsed?: number | undefined;
  /** Multiplier of `elapsed`; 1 by default. */
  readonly factor?: number | undefined;
  /** Minimum of the pause. */
  readonly min?: number | undefined;
  /** Maximum of the pause. */
  readonly max?: number | undefined;
  /** `Crawl-delay` of robots.txt. */
  readonly crawlDelay?: number | undefined;
  /** `Retry-After` of the response. */
  readonly retryAfter?: number | undefined;
  /** HTTP status of the response, or a negative number if there was none. */
  readonly status?: number | undefined;
}

/** The end of a lease: its facts, and at most one of `done`, `retry` and `later`. */
export interface Release extends Facts {
  /** Removes the leased URIs of this execution. */
  readonly done?: Bytes | undefined;
  /** With `done`, the number of URIs to subtract, if the frontier only counts them. */
  readonly count?: number | undefined;
  /** Queues the leased URIs for this time. */
  readonly retry?: number | undefined;
  /** With `retry`, the new payload of the URI. */
  readonly payload?: Bytes | undefined;
  /** Frees the group and leaves the URIs with the token for this time in milliseconds. */
  readonly later?: number | undefined;
}

/** A report of a lease that expired. */
export interface Expired {
  readonly group: Buffer;
  readonly execution: Buffer | null;
  readonly uri: Buffer | null;
  /** Number of leases of the URI that expired, or of the group if the frontier does not keep the URI. */
  readonly times: number;
}

/** Limits of a group; -1 removes `delay` or `budget`. */
export interface Limits {
  readonly parallel?: number | undefined;
  readonly gap?: number | undefined;
  readonly delay?: number | undefined;
  readonly budget?: number | undefined;
  /** Number of URLs of an execution after which the group is no longer leased for it; 0 removes the limit. */
  readonly done?: { readonly urls: number; readonly execution: Bytes } | undefined;
}

/** A group or an execution to pause or resume; undefined stands for the whole frontier. */
export type Pausable = { readonly group: Bytes } | { readonly execution: Bytes } | undefined;

/** The explanation of {@link Frontier.why}. */
export interface Why {
  readonly group: Buffer;
  readonly state: "ready" | "waiting" | "busy" | "idle" | "blocked" | "paused" | "limited" | "gated" | "freed";
  /** The reason, as a sentence for people. */
  readonly why: string;
  readonly due: number;
  readonly in: number;
  readonly count: number;
  readonly gate: number;
  readonly blockedUntil: number;
  readonly paused: boolean;
  readonly leases: readonly {
    readonly token: number;
    readonly granted: number;
    readonly age: number;
    readonly deadline: number;
    readonly execution: Buffer | null;
    readonly uri: Buffer | null;
  }[];
  readonly parallel: number;
  readonly gap: number;
  readonly delay: number | null;
  readonly budget: number | null;
  readonly sharedGate: Buffer | null;
  readonly sharedGateOpens: number | null;
  readonly backoff: number;
  readonly expired: number;
  readonly executions: readonly { readonly execution: Buffer; readonly weight: number | null; readonly uris: number }[];
  readonly moreExecutions: boolean;
  /** Limits of done URLs, and the number of URLs that are done. */
  readonly doneLimits: readonly { readonly execution: Buffer; readonly limit: number; readonly done: number }[];
}

/** The figures of a frontier. */
export interface FrontierInfo {
  readonly groupsWaiting: number;
  readonly groupsReady: number;
  readonly groupsBusy: number;
  readonly groupsIdle: number;
  readonly groupsGated: number;
  readonly due: number;
  readonly oldestReadyMs: number;
  /** Earliest time at which a group may be leased; -1 if there is none. */
  readonly nextDueMs: number;
  readonly uris: number;
  readonly executions: number;
  /** `"all"`, or the number of paused executions. */
  readonly paused: "all" | number;
  readonly waiters: number;
  readonly leases: number;
  readonly releases: number;
  readonly expired: number;
  readonly expiredReports: number;
  readonly reportsDropped: number;
  readonly rateLeases: number;
  readonly pausesObserved: number;
  readonly smallestPauseMs: number | null;
  readonly smallestPauseAskedMs: number | null;
  readonly smallestMarginMs: number | null;
  readonly token: number;
  readonly known: number;
  readonly knownExpectedLost: number;
  readonly storage: "plain" | "packed" | "packing" | "unpacking";
}

/** The figures of an execution; counts of known URLs are null if it does not remember its URLs. */
export interface ExecutionInfo {
  readonly uris: number;
  readonly paused: boolean;
  readonly nextDueMs: number;
  readonly queued: number | null;
  readonly leased: number | null;
  readonly done: number | null;
  readonly givenUp: number | null;
  readonly known: number | null;
}

/** A page of a listing; `cursor` is null after the last page. */
export interface Page<T> {
  readonly cursor: Buffer | null;
  readonly items: readonly T[];
}

/** Options of a page. */
export interface PageOptions {
  readonly cursor?: Bytes | null | undefined;
  readonly count?: number | undefined;
}

/** A queued group. */
export interface QueuedGroup {
  readonly group: Buffer;
  readonly state: "waiting" | "ready" | "busy" | "freed";
  readonly time: number;
  readonly count: number;
}

/** A queued URI. */
export interface QueuedUri {
  readonly execution: Buffer;
  readonly depth: number;
  readonly due: number;
  readonly attempts: number;
  readonly uri: Buffer;
  /** The key with which it was discovered, if it has one. */
  readonly key: Buffer | null;
}

/** A URL of an execution. */
export interface ListedUrl extends KnownUri {
  readonly group: Buffer;
  readonly uri: Buffer;
  /** The key that identifies it, if it has one. */
  readonly key: Buffer | null;
  /** Distance from a seed, or -1 if it is done or given up. */
  readonly depth: number;
}

/** The result of a check of a frontier. */
export interface FrontierCheck {
  readonly groups: number;
  readonly executions: number;
  readonly total: number;
  readonly sumGroups: number;
  readonly sumExecutions: number;
  readonly consistent: boolean;
  readonly problems: readonly string[];
  readonly problemsTotal: number;
  readonly disturbed: boolean;
  /** Number of texts of done URLs that are missing, wrong or needless. */
  readonly wrongTexts: number;
  /** Number of groups of an execution whose time for `next` with an execution is missing or wrong. */
  readonly wrongAgendas: number;
}

/** A frontier: the groups of hosts of a prefix, and the URIs that are queued for them. */
export class Frontier {
  private readonly link: Link;
  private readonly now: (() => number) | undefined;
  private readonly writers = new Writers();

  /**
   * Creates a frontier with the connection of the client. The prefix is prepended to every key; in a cluster it needs
   * a hash tag, such as `{web}:`.
   */
  constructor(
    client: RedisClient,
    readonly prefix: Bytes,
    options: FrontierOptions = {},
  ) {
    this.link = new Link(client, options);
    this.now = options.now;
  }

  /** Closes the connections on which this client's commands waited. The client itself stays open. */
  close(): void {
    this.link.close();
  }

  /** Begins a command. */
  private words(name: string): Word[] {
    return this.now === undefined
      ? [name, this.prefix]
      : [name, this.prefix, "NOW", number(this.now())];
  }

  /**
   * Counts URIs that the caller has queued, and returns the number of URIs of each group, or null where the budget
   * refuses the URI. Repeats are counted once (`SEQ`).
   */
  async add(execution: Bytes, items: readonly Counted[]): Promise<(number | null)[]> {
    if (items.length === 0) return [];
    const writer = this.writers.take();
    try {
      const words = this.words("CHG.ADD");
      words.push(execution, "SEQ", writer.name, number(writer.n));
      for (const { group, at } of items) words.push(group, number(at ?? 0));
      return each(maybe(int))(await this.link.call(words, REPEAT));
    } finally {
      this.writers.give(writer);
    }
  }

  /** Queues URIs that the frontier keeps, and returns the number of URIs of each group, or null if refused. */
  async addUri(
    execution: Bytes,
    items: readonly Item[],
    options: { readonly weight?: number | undefined } = {},
  ): Promise<(number | null)[]> {
    if (items.length === 0) return [];
    const words = this.words("CHG.ADDURI");
    words.push(execution);
    put(words, "WEIGHT", options.weight);
    for (const { group, at, depth, uri } of items) words.push(group, number(at ?? 0), number(depth ?? 0), uri);
    return each(maybe(int))(await this.link.call(words, REPEAT));
  }

  /**
   * Queues URLs that the execution does not know yet. Returns, for each URL, the number of URIs of
   * its group if the URL is new, 0 if it is known, or null if it is refused. Needs a packed
   * frontier.
   */
  async discover(
    execution: Bytes,
    items: readonly Discovery[],
    options: { readonly fresh?: number | undefined; readonly weight?: number | undefined } = {},
  ): Promise<(number | null)[]> {
    const form = ({ key, payload }: Discovery): string =>
      `${key === undefined ? "" : "KEY"}${payload === undefined ? "" : "PAYLOAD"}` || "URI";
    return this.byForm(items, form, async (form, some) => {
      const words = this.words("CHG.DISCOVER");
      words.push(execution, form);
      put(words, "FRESH", options.fresh);
      put(words, "WEIGHT", options.weight);
      put(words, "ITEMS", some.length);
      for (const { group, at, depth, uri, key, payload } of some) {
        words.push(group, number(at ?? 0), number(depth ?? 0), uri);
        if (key !== undefined) words.push(key);
        if (payload !== undefined) words.push(payload);
      }
      return each(maybe(int))(await this.link.call(words, REPEAT));
    });
  }

  /** Sends items in commands whose items have the same form, and returns the result of each item. */
  private async byForm<T, R>(
    items: readonly T[],
    form: (item: T) => string,
    send: (form: string, some: readonly T[]) => Promise<(R | null)[]>,
  ): Promise<(R | null)[]> {
    const found = new Array<R | null>(items.length);
    const forms = new Map<string, number[]>();
    items.forEach((item, i) => {
      const there = forms.get(form(item));
      if (there) there.push(i);
      else forms.set(form(item), [i]);
    });
    for (const [form, positions] of forms) {
      for (const some of chunks(positions)) {
        const got = await send(form, some.map((i) => items[i] as T));
        some.forEach((i, n) => (found[i] = got[n] ?? null));
      }
    }
    return found;
  }

  /**
   * Marks URLs as done, or sets the time of their next fetch. URLs without a payload are sent first. Returns
   * for each URL true if something changed, false if not, or null if it is refused. Needs a packed frontier.
   */
  async settle(
    execution: Bytes,
    items: readonly Settlement[],
    options: { readonly status?: number | undefined } = {},
  ): Promise<(boolean | null)[]> {
    const form = ({ payload }: Settlement): string => (payload === undefined ? "" : "PAYLOAD");
    return this.byForm(items, form, async (form, some) => {
      const words = this.words("CHG.SETTLE");
      words.push(execution);
      put(words, "STATUS", options.status);
      if (form !== "") words.push(form);
      put(words, "ITEMS", some.length);
      for (const { group, uri, at, payload } of some) {
        words.push(group, uri, at === "never" ? "NEVER" : number(at));
        if (payload !== undefined) words.push(payload);
      }
      return each(maybe((n) => int(n) === 1))(await this.link.call(words, REPEAT));
    });
  }

  /** Returns the states of URLs, given by URL or key; null for unknown URLs. Needs a packed frontier. */
  async known(execution: Bytes, uris: readonly Bytes[]): Promise<(KnownUri | null)[]> {
    const found: (KnownUri | null)[] = [];
    for (const some of chunks(uris)) {
      const words = this.words("CHG.KNOWN");
      words.push(execution, ...some);
      found.push(...each(maybe(knownOf))(await this.link.call(words, REPEAT)));
    }
    return found;
  }

  /** Counts the known URLs of an execution, or those of one group. Needs a packed frontier. */
  async count(execution: Bytes, options: { readonly group?: Bytes | undefined } = {}): Promise<KnownCounts> {
    const words = this.words("CHG.COUNT");
    words.push(execution);
    put(words, "GROUP", options.group);
    const fields = new Fields(await this.link.call(words, options.group === undefined ? REPEAT : REPEAT | WAIT));
    return {
      queued: fields.int("queued"),
      leased: fields.int("leased"),
      done: fields.int("done"),
      givenUp: fields.int("given-up"),
      known: fields.int("known"),
    };
  }

  /** Forgets these URLs, and returns how many were forgotten. Needs a packed frontier. */
  async forget(execution: Bytes, uris: readonly Bytes[]): Promise<number> {
    let count = 0;
    for (const some of chunks(uris)) {
      const words = this.words("CHG.FORGET");
      words.push(execution, "URIS", number(some.length), ...some);
      count += int(await this.link.call(words, REPEAT));
    }
    return count;
  }

  /** Forgets all URLs that are done or given up and match the options, and returns their number. */
  async forgetAll(
    execution: Bytes,
    options: { readonly group?: Bytes | undefined; readonly before?: number | undefined; readonly state?: "done" | "given-up" | undefined } = {},
  ): Promise<number> {
    const words = this.words("CHG.FORGET");
    words.push(execution);
    put(words, "GROUP", options.group);
    put(words, "BEFORE", options.before);
    if (options.state !== undefined) words.push("STATE", options.state === "done" ? "DONE" : "GIVENUP");
    return int(await this.link.call(words, REPEAT | WAIT));
  }

  /** Makes an execution remember its URLs, with these options. Needs a packed frontier. */
  async space(
    execution: Bytes,
    options: { readonly bits?: 96 | 128 | undefined; readonly keepText?: boolean | undefined; readonly share?: Bytes | undefined } = {},
  ): Promise<void> {
    const words = this.words("CHG.SPACE");
    words.push(execution);
    put(words, "BITS", options.bits);
    if (options.keepText !== undefined) words.push("TEXT", options.keepText ? "YES" : "NO");
    put(words, "SHARE", options.share);
    await this.link.call(words, REPEAT);
  }

  /**
   * Leases the groups that have been due for longest, and returns an empty array if none is due. With `block`, the call
   * waits on a connection of its own. `group` leases only this group, if it is due.
   */
  async next(
    options: NextOptions & { readonly count?: number | undefined; readonly group?: Bytes | undefined } = {},
  ): Promise<Lease[]> {
    const words = this.words("CHG.NEXT");
    put(words, "LEASE", options.lease);
    put(words, "COUNT", options.count);
    put(words, "GROUP", options.group);
    putNext(words, options);
    const flags = waits(options) ? REPEAT | WAIT : REPEAT;
    return each(leaseOf)(await this.link.call(words, flags, options.block));
  }

  /** Releases a lease, and returns the time at which the group is due again. */
  async release(lease: Pick<Lease, "group" | "token">, release: Release): Promise<number> {
    return int(await this.link.call(this.releasing(lease, release), REPEAT));
  }

  /** Releases a lease, and requests the next one in the same round trip. */
  async releaseNext(
    lease: Pick<Lease, "group" | "token">,
    release: Release,
    next: NextOptions = {},
  ): Promise<{ readonly due: number; readonly lease: Lease | null }> {
    const words = this.releasing(lease, release);
    words.push("NEXT");
    put(words, "LEASE", next.lease);
    putNext(words, next);
    const reply = await this.link.call(words, waits(next) ? REPEAT | WAIT : REPEAT, next.block);
    const [due, granted] = list(reply);
    return { due: int(due), lease: maybeLease(granted) };
  }

  private releasing({ group, token }: Pick<Lease, "group" | "token">, release: Release): Word[] {
    const words = this.words("CHG.RELEASE");
    words.push(group, number(token));
    put(words, "AT", release.at);
    put(words, "DELAY", release.delay);
    put(words, "ELAPSED", release.elapsed);
    put(words, "FACTOR", release.factor);
    put(words, "MIN", release.min);
    put(words, "MAX", release.max);
    put(words, "CRAWLDELAY", release.crawlDelay);
    put(words, "RETRYAFTER", release.retryAfter);
    put(words, "STATUS", release.status);
    if (release.done !== undefined) {
      words.push("DONE", release.done);
      if (release.count !== undefined) words.push(number(release.count));
    }
    put(words, "RETRY", release.retry);
    put(words, "PAYLOAD", release.payload);
    put(words, "LATER", release.later);
    return words;
  }

  /**
   * Marks these URIs of a lease as done, or all of them if none is given. The group of the lease may have been freed.
   * Returns the number of URIs that were marked. Needs a packed frontier.
   */
  async done(
    lease: Pick<Lease, "group" | "token">,
    execution: Bytes,
    uris: readonly Bytes[] = [],
  ): Promise<number> {
    const words = this.words("CHG.DONE");
    words.push(lease.group, number(lease.token), execution, ...uris);
    return int(await this.link.call(words, REPEAT));
  }

  /** Extends a lease to `ms` milliseconds from now, and returns its new deadline. */
  async extend(lease: Pick<Lease, "group" | "token">, ms: number): Promise<number> {
    const words = this.words("CHG.EXTEND");
    words.push(lease.group, number(lease.token), number(ms));
    return int(await this.link.call(words, REPEAT));
  }

  /**
   * Iterates over leases: each step ends the last lease and requests the next one in a single round trip. The loop
   * gives its lease back when it ends by `break`, by an exception, or by its signal.
   */
  leases(options: LeasesOptions = {}): Leases {
    return new Leases(this, options);
  }

  /** Returns reports of expired leases. Each report is returned once. */
  async expired(options: { readonly count?: number | undefined } = {}): Promise<Expired[]> {
    const words = this.words("CHG.EXPIRED");
    put(words, "COUNT", options.count);
    return each((report) => {
      const [group, execution, uri, times] = list(report);
      return { group: bytes(group), execution: maybeBytes(execution), uri: maybeBytes(uri), times: int(times) };
    })(await this.link.call(words));
  }

  /** Blocks a group until a time in milliseconds since the epoch; 0 ends the block. */
  async block(group: Bytes, until: number): Promise<void> {
    const words = this.words("CHG.BLOCK");
    words.push(group, "UNTIL", number(until));
    await this.link.call(words, REPEAT);
  }

  /** Pauses a group, an execution, or without an argument the whole frontier. */
  async pause(what?: Pausable): Promise<void> {
    await this.holding("CHG.PAUSE", what);
  }

  /** Ends a pause. */
  async resume(what?: Pausable): Promise<void> {
    await this.holding("CHG.RESUME", what);
  }

  private async holding(name: string, what: Pausable): Promise<void> {
    const words = this.words(name);
    if (what !== undefined && "group" in what) words.push(what.group);
    else if (what !== undefined) words.push("EXECUTION", what.execution);
    const job = what !== undefined && "execution" in what;
    await this.link.call(words, job ? REPEAT | WAIT : REPEAT);
  }

  /** Sets limits of a group; those that are not given stay unchanged. */
  async limit(group: Bytes, limits: Limits): Promise<void> {
    const words = this.words("CHG.LIMIT");
    words.push(group);
    put(words, "PARALLEL", limits.parallel);
    put(words, "GAP", limits.gap);
    put(words, "DELAY", limits.delay);
    put(words, "BUDGET", limits.budget);
    put(words, "DONE", limits.done?.urls);
    put(words, "EXECUTION", limits.done?.execution);
    await this.link.call(words, limits.done === undefined ? REPEAT : REPEAT | WAIT);
  }

  /** Puts groups behind a shared gate; an empty name removes them from their gate. */
  async share(gate: Bytes, groups: readonly Bytes[]): Promise<void> {
    const words = this.words("CHG.GROUP");
    words.push(gate, ...groups);
    await this.link.call(words, REPEAT);
  }

  /**
   * Moves the queued URIs of a group to another group. Returns the number of moved URIs, and the number of URIs that
   * the other group has now.
   */
  async move(from: Bytes, to: Bytes): Promise<{ readonly moved: number; readonly queued: number }> {
    const words = this.words("CHG.MOVE");
    words.push(from, to);
    const [moved, queued] = list(await this.link.call(words, WAIT));
    return { moved: int(moved), queued: int(queued) };
  }

  /** Removes all URIs of an execution. Returns the number of groups that had such URIs, and of the removed URIs. */
  async drop(execution: Bytes): Promise<{ readonly groups: number; readonly uris: number }> {
    const words = this.words("CHG.DROP");
    words.push(execution);
    const [groups, uris] = list(await this.link.call(words, REPEAT | WAIT));
    return { groups: int(groups), uris: int(uris) };
  }

  /** Removes the URIs of a group. Returns the number of executions that had URIs in it, and of the removed URIs. */
  async dropGroup(group: Bytes): Promise<{ readonly executions: number; readonly uris: number }> {
    const words = this.words("CHG.DROP");
    words.push("GROUP", group);
    const [executions, uris] = list(await this.link.call(words, REPEAT | WAIT));
    return { executions: int(executions), uris: int(uris) };
  }

  /** Explains why a group is not being fetched from. */
  async why(group: Bytes): Promise<Why> {
    const words = this.words("CHG.WHY");
    words.push(group);
    const fields = new Fields(await this.link.call(words, REPEAT));
    return {
      group: fields.read("chg", bytes),
      state: fields.text("state") as Why["state"],
      why: fields.text("why"),
      due: fields.int("due"),
      in: fields.int("in"),
      count: fields.int("count"),
      gate: fields.int("gate"),
      blockedUntil: fields.int("blocked-until"),
      paused: fields.flag("paused"),
      leases: fields.read("leases", each((lease) => {
        const held = new Fields(lease);
        return {
          token: held.int("token"),
          granted: held.int("granted"),
          age: held.int("age"),
          deadline: held.int("deadline"),
          execution: held.maybe("execution", bytes),
          uri: held.maybe("uri", bytes),
        };
      })),
      parallel: fields.int("parallel"),
      gap: fields.int("gap"),
      delay: fields.maybe("delay", int),
      budget: fields.maybe("budget", int),
      sharedGate: fields.maybe("group", bytes),
      sharedGateOpens: fields.maybe("group-gate", int),
      backoff: fields.int("backoff"),
      expired: fields.int("expired"),
      executions: fields.read("executions", each((execution) => {
        const part = new Fields(execution);
        return {
          execution: part.read("execution", bytes),
          weight: part.maybe("weight", int),
          uris: part.int("uris"),
        };
      })),
      moreExecutions: fields.flag("more-executions"),
      doneLimits: fields.maybe("done-limits", each((limit) => {
        const part = new Fields(limit);
        return { execution: part.read("execution", bytes), limit: part.int("limit"), done: part.int("done") };
      })) ?? [],
    };
  }

  /** Returns the figures of the frontier. */
  async info(): Promise<FrontierInfo> {
    const fields = new Fields(await this.link.call(this.words("CHG.INFO"), REPEAT));
    const paused = fields.text("paused");
    return {
      groupsWaiting: fields.int("groups-waiting"),
      groupsReady: fields.int("groups-ready"),
      groupsBusy: fields.int("groups-busy"),
      groupsIdle: fields.int("groups-idle"),
      groupsGated: fields.int("groups-gated"),
      due: fields.int("due"),
      oldestReadyMs: fields.int("oldest-ready-ms"),
      nextDueMs: fields.int("next-due-ms"),
      uris: fields.int("uris"),
      executions: fields.int("executions"),
      paused: paused === "all" ? "all" : Number(paused),
      waiters: fields.int("waiters"),
      leases: fields.int("leases"),
      releases: fields.int("releases"),
      expired: fields.int("expired"),
      expiredReports: fields.int("expired-reports"),
      reportsDropped: fields.int("reports-dropped"),
      rateLeases: fields.int("rate-leases"),
      pausesObserved: fields.int("pauses-observed"),
      smallestPauseMs: fields.maybe("smallest-pause-ms", int),
      smallestPauseAskedMs: fields.maybe("smallest-pause-asked-ms", int),
      smallestMarginMs: fields.maybe("smallest-margin-ms", int),
      token: fields.int("token"),
      known: fields.int("known"),
      knownExpectedLost: fields.int("known-expected-lost"),
      storage: fields.text("storage") as FrontierInfo["storage"],
    };
  }

  /** Returns the figures of one execution. */
  async executionInfo(execution: Bytes): Promise<ExecutionInfo> {
    const words = this.words("CHG.INFO");
    words.push("EXECUTION", execution);
    const fields = new Fields(await this.link.call(words, REPEAT));
    return {
      uris: fields.int("uris"),
      paused: fields.flag("paused"),
      nextDueMs: fields.int("next-due-ms"),
      queued: fields.maybe("queued", int),
      leased: fields.maybe("leased", int),
      done: fields.maybe("done", int),
      givenUp: fields.maybe("given-up", int),
      known: fields.maybe("known", int),
    };
  }

  /** Returns a page of the queued groups. A page may be empty; continue until the cursor is null. */
  async list(
    options: PageOptions & { readonly state?: QueuedGroup["state"] | undefined } = {},
  ): Promise<Page<QueuedGroup>> {
    const words = this.words("CHG.LIST");
    put(words, "STATE", options.state);
    return page(words, options, (words) => this.link.call(words, REPEAT), (item) => {
      const [group, state, time, count] = list(item);
      return {
        group: bytes(group),
        state: text(state) as QueuedGroup["state"],
        time: int(time),
        count: int(count),
      };
    });
  }

  /** Returns a page of the URIs that are queued for a group. */
  async uris(group: Bytes, options: PageOptions = {}): Promise<Page<QueuedUri>> {
    const words = this.words("CHG.URIS");
    words.push(group);
    return page(words, options, (words) => this.link.call(words, REPEAT), (item) => {
      const [execution, depth, due, attempts, uri, key] = list(item);
      return {
        execution: bytes(execution),
        depth: int(depth),
        due: int(due),
        attempts: int(attempts),
        uri: bytes(uri),
        key: key === undefined ? null : bytes(key),
      };
    });
  }

  /**
   * Returns a page of the URLs of an execution in all groups: those in one state, or those that are queued or leased.
   * Needs a packed frontier.
   */
  async urls(execution: Bytes, options: PageOptions & { readonly state?: UriState | undefined } = {}): Promise<Page<ListedUrl>> {
    const words = this.words("CHG.URIS");
    words.push("EXECUTION", execution);
    if (options.state !== undefined) words.push("STATE", options.state.replace("-", "").toUpperCase());
    const all = { ...options, cursor: options.cursor ?? "0" };
    return page(words, all, (words) => this.link.call(words, REPEAT), (item) => {
      const [group, uri, key, depth, ...known] = list(item);
      return {
        ...knownOf(known),
        group: bytes(group),
        uri: bytes(uri),
        key: maybe(bytes)(key),
        depth: int(depth),
      };
    });
  }

  /** Checks the frontier for lost and double-counted URIs. */
  async check(): Promise<FrontierCheck> {
    return checkOf(new Fields(await this.link.call(this.words("CHG.CHECK"), REPEAT | WAIT)));
  }

  /** Repairs what {@link Frontier.check} finds. */
  async repair(): Promise<FrontierCheck & { readonly mended: number }> {
    const fields = new Fields(await this.link.call(this.words("CHG.REPAIR"), REPEAT | WAIT));
    return { ...checkOf(fields), mended: fields.int("mended") };
  }

  /** Moves the frontier into one packed value, or creates an empty one. Returns the number of groups moved. */
  async pack(): Promise<number> {
    return int(await this.link.call(this.words("CHG.PACK"), REPEAT | WAIT));
  }

  /** Moves a packed frontier back into the documented keys. Returns the number of groups moved. */
  async unpack(): Promise<number> {
    return int(await this.link.call(this.words("CHG.UNPACK"), REPEAT | WAIT));
  }

  /** Moves due groups to the ready queue, for plain clients. Returns the numbers of groups from each queue. */
  async sweep(options: { readonly limit?: number | undefined } = {}): Promise<{ readonly waiting: number; readonly busy: number }> {
    const words = this.words("CHG.SWEEP");
    put(words, "LIMIT", options.limit);
    const [waiting, busy] = list(await this.link.call(words, REPEAT | WAIT));
    return { waiting: int(waiting), busy: int(busy) };
  }
}

function waits(options: NextOptions): boolean {
  // The first request for an execution is a job.
  return options.block !== undefined || options.execution !== undefined;
}

function putNext(words: Word[], options: NextOptions): void {
  put(words, "BLOCK", options.block);
  put(words, "URIS", options.uris);
  put(words, "GATE", options.gate);
  put(words, "EXECUTION", options.execution);
}

const maybeLease = maybe(leaseOf);

// The functions that parse leases run for every page, so they access elements by index.

function leaseOf(value: unknown): Lease {
  const parts = value as unknown[];
  const uris = parts[7];
  return {
    group: bytes(parts[0]),
    token: int(parts[1]),
    deadline: int(parts[2]),
    due: int(parts[3]),
    queued: int(parts[4]),
    execution: maybeBytes(parts[5]),
    uris: uris === undefined ? singly(parts[6]) : (uris as unknown[]).map(uriOf),
  };
}

function singly(uri: unknown): LeasedUri[] {
  if (uri === null || uri === undefined) return [];
  return [{ uri: bytes(uri), key: null, payload: null, depth: null, attempts: null }];
}

function uriOf(value: unknown): LeasedUri {
  const parts = value as unknown[];
  return {
    uri: bytes(parts[0]),
    key: maybeBytes(parts[1]),
    payload: maybeBytes(parts[2]),
    depth: int(parts[3]),
    attempts: int(parts[4]),
  };
}

function knownOf(value: unknown): KnownUri {
  const [state, due, status, attempts, changed] = list(value);
  return {
    state: text(state) as UriState,
    due: int(due),
    status: int(status),
    attempts: int(attempts),
    changed: int(changed),
  };
}

function checkOf(fields: Fields): FrontierCheck {
  return {
    groups: fields.int("groups"),
    executions: fields.int("executions"),
    total: fields.int("total"),
    sumGroups: fields.int("sum-groups"),
    sumExecutions: fields.int("sum-executions"),
    consistent: fields.flag("consistent"),
    problems: fields.read("problems", each(text)),
    problemsTotal: fields.int("problems-total"),
    disturbed: fields.flag("disturbed"),
    wrongTexts: fields.maybe("wrong-texts", int) ?? 0,
    wrongAgendas: fields.maybe("wrong-agendas", int) ?? 0,
  };
}

/** Splits items into as many as a command takes. */
function* chunks<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let i = 0; i < items.length; i += 10_000) yield items.slice(i, i + 10_000);
}

async function page<T>(
  words: Word[],
  options: PageOptions,
  send: (words: Word[]) => Promise<unknown>,
  read: (item: unknown) => T,
): Promise<Page<T>> {
  put(words, "CURSOR", options.cursor ?? undefined);
  put(words, "COUNT", options.count);
  const [cursor, items] = list(await send(words));
  return { cursor: cursorOf(cursor), items: each(read)(items) };
}

/** Reads the cursor of the next page; null after the last page. */
export function cursorOf(value: unknown): Buffer | null {
  const cursor = bytes(value);
  return cursor.length === 1 && cursor[0] === 0x30 ? null : cursor;
}
