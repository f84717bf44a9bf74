import { NoGroupError, StaleError } from "./errors.js";
import type { Facts, Frontier, Lease, LeasedUri, NextOptions, Release } from "./frontier.js";
import type { Bytes } from "./reply.js";

/** Longest wait of one request in milliseconds, so that a signal ends the loop soon. */
const SLICE = 1000;

/** Options of {@link Frontier.leases}. The pause rule applies to every lease; a lease can override it. */
export interface LeasesOptions extends Omit<NextOptions, "block">, Pick<Facts, "factor" | "min" | "max"> {
  /** Ends the loop when no group was due for this time in milliseconds; by default, the loop waits without a limit. */
  readonly idle?: number | undefined;
  /** Ends the loop: the current lease is given back unless the body has ended it. */
  readonly signal?: AbortSignal | undefined;
  /** Reports a lease that expired before it was ended: another worker fetches its URIs again. */
  readonly onLost?: ((lease: HeldLease) => void) | undefined;
}

const NO_RULE: LeasesOptions = {};

/** How a lease ended, and its facts. The time since the lease began is used as `elapsed` if it is not given. */
export interface End extends Facts {
  /** The execution of URIs that the frontier only counts. */
  readonly execution?: Bytes | undefined;
  /** Number of URIs that are done, if the frontier only counts them. */
  readonly count?: number | undefined;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** A lease in a loop over {@link Frontier.leases}. */
export class HeldLease implements Lease {
  readonly group: Buffer;
  readonly token: number;
  readonly due: number;
  readonly queued: number;
  readonly execution: Buffer | null;
  readonly uris: readonly LeasedUri[];
  private readonly begun = performance.now();
  private until: number;
  private ending: Release | undefined;
  private sent = false;
  private lost = false;
  private freed: boolean;

  /** @internal */
  constructor(
    private readonly frontier: Frontier,
    private readonly options: LeasesOptions,
    lease: Lease,
  ) {
    this.group = lease.group;
    this.token = lease.token;
    this.until = lease.deadline;
    this.due = lease.due;
    this.queued = lease.queued;
    this.execution = lease.execution;
    this.uris = lease.uris;
    this.freed = options.gate !== undefined && lease.uris.length > 0;
  }

  /** Deadline of the lease, in milliseconds since the epoch. */
  get deadline(): number {
    return this.until;
  }

  /** The first URI of the lease; null if the frontier only counts URIs. */
  get uri(): Buffer | null {
    return this.uris[0]?.uri ?? null;
  }

  /** Ends the lease: its URIs are done. The release is sent with the request for the next lease. */
  done(end: End = {}): void {
    const execution = this.execution ?? end.execution;
    if (execution === undefined) throw new TypeError("the frontier only counts these URIs: name their execution");
    const release = this.released(end);
    release.done = execution;
    release.count = end.count;
    this.ending = release;
  }

  /** Ends the lease: its URIs are queued for this time in milliseconds since the epoch, with a new payload if given. */
  retry(at: number, end: Facts & { readonly payload?: Bytes | undefined } = {}): void {
    const release = this.released(end);
    release.retry = at;
    release.payload = end.payload;
    this.ending = release;
  }

  /** Ends the lease: its URIs return to the queue unchanged. A lease that the body does not end is given back, too. */
  giveBack(facts: Facts = {}): void {
    this.ending = this.released(facts);
  }

  /**
   * Frees the host now, and leaves the URIs with this lease for `ms` milliseconds. Call {@link done}, {@link retry} or
   * {@link giveBack} within this time; otherwise, the URIs return to the queue after it.
   *
   * Returns false if the lease is lost: it expired, and another worker fetches its URIs.
   */
  async later(ms: number, facts: Facts = {}): Promise<boolean> {
    const release = this.released(facts);
    release.later = ms;
    const held = await this.unlessLost(this.frontier.release(this, release));
    this.freed ||= held;
    return held;
  }

  /**
   * Extends the lease to `ms` milliseconds from now; by default, to its initial length. Returns false if the lease is
   * lost: stop, because another worker may fetch from the host.
   */
  async extend(ms: number | undefined = this.options.lease): Promise<boolean> {
    if (ms === undefined) throw new TypeError("pass the new length of the lease in milliseconds");
    return this.unlessLost(this.frontier.extend(this, ms).then((deadline) => (this.until = deadline)));
  }

  /** Sends the end now instead of with the next request, for example after {@link later} and outside the loop. */
  async finish(): Promise<void> {
    const release = this.ending;
    if (release === undefined || this.sent) return;
    this.sent = true;
    try {
      await this.unlessLost(this.end(release));
    } catch (error) {
      this.sent = false;
      throw error;
    }
  }

  private async end(release: Release): Promise<void> {
    if (!this.freed) await this.frontier.release(this, release);
    else if (release.done !== undefined) await this.frontier.done(this, release.done);
    else await this.settleAt(release.retry ?? 0);
  }

  /** Returns false if the call fails because the lease is lost. Nothing more is sent for such a lease. */
  private async unlessLost(call: Promise<unknown>): Promise<boolean> {
    try {
      await call;
      return true;
    } catch (error) {
      if (!isLost(error)) throw error;
      this.lose();
      return false;
    }
  }

  /** Reports the lease as lost, once.
   * @internal */
  lose(): void {
    this.sent = true;
    if (!this.lost) this.options.onLost?.(this);
    this.lost = true;
  }

  /** Returns the release to send with the next request, or undefined if there is none.
   * @internal */
  take(): Release | undefined {
    if (this.sent || this.freed) return undefined;
    if (this.ending === undefined) this.giveBack();
    this.sent = true;
    return this.ending;
  }

  /** Ends the lease when the loop ends.
   * @internal */
  async leave(): Promise<void> {
    if (this.ending === undefined) this.giveBack();
    await this.finish();
  }

  /** Returns the release with these facts, and the rule of the loop for those that are missing. */
  private released(facts: Facts): Mutable<Release> {
    const { at, delay, crawlDelay, retryAfter, status } = facts;
    const rule = at === undefined && delay === undefined ? this.options : NO_RULE;
    const elapsed = rule === NO_RULE ? facts.elapsed : facts.elapsed ?? Math.round(performance.now() - this.begun);
    const factor = facts.factor ?? rule.factor;
    const min = facts.min ?? rule.min;
    const max = facts.max ?? rule.max;
    // All parts are named, because this runs for every page.
    const end = { done: undefined, count: undefined, retry: undefined, payload: undefined, later: undefined };
    return { at, delay, elapsed, factor, min, max, crawlDelay, retryAfter, status, ...end };
  }

  private async settleAt(at: number): Promise<void> {
    const items = this.uris.map(({ uri, key }) => ({ group: this.group, uri: key ?? uri, at }));
    if (this.execution !== null) await this.frontier.settle(this.execution, items);
  }
}

/** The leases of {@link Frontier.leases}. */
export class Leases implements AsyncIterable<HeldLease> {
  /** @internal */
  constructor(
    private readonly frontier: Frontier,
    private readonly options: LeasesOptions,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<HeldLease, void, undefined> {
    const { idle, signal } = this.options;
    let held: HeldLease | undefined;
    let since = Date.now();
    try {
      while (!signal?.aborted) {
        const last = held;
        held = undefined;
        const left = idle === undefined ? SLICE : since + idle - Date.now();
        const lease = await this.step(last, Math.max(1, Math.min(SLICE, left)));
        if (lease === null) {
          if (last !== undefined) since = Date.now();
          else if (idle !== undefined && Date.now() - since >= idle) return;
          continue;
        }
        held = new HeldLease(this.frontier, this.options, lease);
        if (signal?.aborted) {
          held.giveBack({ delay: 0 }); // nothing was fetched
          return;
        }
        yield held;
        since = Date.now();
      }
    } finally {
      await held?.leave();
    }
  }

  /** Ends a lease, and returns the next one or null. */
  private async step(last: HeldLease | undefined, block: number): Promise<Lease | null> {
    const { lease, uris, gate, execution } = this.options;
    const next: NextOptions = { block, lease, uris, gate, execution };
    const release = last?.take();
    if (last !== undefined && release !== undefined) {
      try {
        return (await this.frontier.releaseNext(last, release, next)).lease;
      } catch (error) {
        if (!isLost(error)) throw error;
        last.lose();
      }
    } else {
      await last?.finish();
    }
    return (await this.frontier.next(next))[0] ?? null;
  }
}

function isLost(error: unknown): boolean {
  return error instanceof StaleError || error instanceof NoGroupError;
}
