import type { RedisClient, Word } from "./clients.js";
import { Capture, type CaptureOptions } from "./capture.js";
import { Link, REPEAT, WAIT, type LinkOptions } from "./link.js";
import { bytes, each, Fields, int, list, maybe, maybeBytes, number, pairs, put, text, type Bytes } from "./reply.js";
import { Writers } from "./writers.js";

/** Settings of a {@link Dedupe}. */
export interface DedupeOptions extends LinkOptions {}

/** The stored record of a payload. */
export interface Original {
  readonly crawl: Buffer;
  readonly waczIndex: number;
  /** The date as it was written: 14 digits, 17 digits, or ISO form. */
  readonly date: Buffer;
  readonly url: Buffer;
  /** Size of the record in bytes; 0 if it is unknown. */
  readonly size: number;
  /** Name of the WACZ file, if it was asked for and is known. */
  readonly wacz: Buffer | null;
}

/** The outcome of a claim. */
export type Claim =
  | { readonly state: "dupe"; readonly original: Original }
  | { readonly state: "claimed"; readonly token: string }
  | { readonly state: "pending"; readonly holder: Buffer; readonly left: number };

/** The outcome of a claim whose original is a single value, `crawl waczIndex date url size`. */
export type TextClaim =
  | { readonly state: "dupe"; readonly text: Buffer }
  | Exclude<Claim, { readonly state: "dupe" }>;

/** Settings of a claim. */
export interface ClaimOptions {
  /** Lifetime of the claim in milliseconds, if it is not settled. */
  readonly px: number;
  /** Maximum time in milliseconds to wait for the outcome of another caller's claim; 0 means no limit. */
  readonly block?: number | undefined;
}

/** A `response` record that was written. */
export interface Response {
  readonly hash: Bytes;
  /** Index in the WACZ list of the crawl; 0 by default. */
  readonly waczIndex?: number | undefined;
  readonly date: Bytes;
  readonly url: Bytes;
  /** Size of the record in bytes. */
  readonly size: number;
}

/** A `revisit` record that was written. */
export interface Revisit {
  readonly hash: Bytes;
  /** Size of the revisit record in bytes. */
  readonly size: number;
  /** The record that the revisit refers to, as a look-up or a claim returned it. */
  readonly original?: Pick<Original, "crawl" | "waczIndex" | "size"> | undefined;
}

/** Options that determine where a call records the WACZ files that its revisits need. */
export interface RevisitOptions {
  /** The id of the WACZ file that is being written. */
  readonly ref?: Bytes | undefined;
  /** Does not write `reqCrawls` and `duperefs`. */
  readonly noRef?: boolean | undefined;
}

/** A stored capture of a URL. */
export interface UrlCapture {
  readonly crawl: Buffer;
  readonly hash: Buffer;
  readonly waczIndex: number;
  readonly date: Buffer;
  readonly size: number;
  readonly wacz: Buffer | null;
}

/** A WACZ file of a crawl. `size` is null while it is unfinished; `hash` is null if it is unknown. */
export interface Wacz {
  readonly filename: Buffer;
  readonly hash: Buffer | null;
  readonly size: number | null;
}

/** A WACZ file that a crawl needs for replay. */
export interface RequiredWacz extends Wacz {
  readonly crawl: Buffer;
}

/** The figures of an index. */
export interface IndexStats {
  readonly profile: Profile;
  readonly storage: "plain" | "packed" | "packing" | "unpacking";
  readonly crawls: number;
  readonly uncommitted: number;
  readonly hashes: number;
  readonly totalUrls: number;
  readonly dupeUrls: number;
  readonly conservedSize: number;
  readonly totalCrawlSize: number;
  readonly removedCrawls: number;
  readonly removedCrawlSize: number;
  readonly updateProgress: string | null;
  readonly memory: number;
}

/** A state of a crawl. */
export type CrawlState = "uncommitted" | "committed" | "continued" | "outgoing" | "canceled" | "unlisted";

/** The figures of a crawl in a list. */
export interface CrawlFigures {
  readonly state: CrawlState;
  readonly hashes: number;
  readonly totalUrls: number;
  readonly dupeUrls: number;
  readonly conservedSize: number;
  readonly totalCrawlSize: number;
  readonly waczs: number;
}

/** The figures of one crawl. */
export interface CrawlStats extends CrawlFigures {
  readonly requires: number;
  readonly memory: number;
}

/** A crawl in a list. */
export interface ListedCrawl extends CrawlFigures {
  readonly crawl: Buffer;
  /** Completed fraction of a running commit, cancel or removal; null if none runs. */
  readonly progress: number | null;
}

/** A profile: key names and notation of hashes. */
export type Profile = "document" | "browsertrix";

/** The result of a move between storages. */
export interface Moved {
  readonly storage: string;
  readonly hashes: number;
  readonly records: number;
  readonly memory: number;
}

/** The result of a check of an index: each figure of `DEDUPE.CHECK` by its name. */
export interface IndexCheck {
  readonly ok: boolean;
  readonly crawls: number;
  readonly hashes: number;
  readonly danglingOwners: number;
  readonly missingHashes: number;
  readonly hiddenOwners: number;
  readonly badRecords: number;
  readonly countDrift: number;
  readonly leakedKeys: number;
  readonly unlistedCrawls: number;
  readonly toRemoveCrawls: number;
  readonly staleHolders: number;
  readonly interrupted: number;
  readonly placeholders: number;
  /** Only with an index by URL. */
  readonly urlDrift: number | null;
}

/** The dedupe index of a prefix. */
export class Dedupe {
  private readonly link: Link;
  private readonly writers = new Writers();

  /**
   * Creates an index with the connection of the client. The prefix is prepended to every key; in a cluster it needs a
   * hash tag, such as `{coll-42}:`.
   */
  constructor(
    client: RedisClient,
    readonly prefix: Bytes,
    options: DedupeOptions = {},
  ) {
    this.link = new Link(client, options);
  }

  /** Closes the connections on which this client's commands waited. The client itself stays open. */
  close(): void {
    this.link.close();
  }

  /**
   * Claims a payload, and calls `body` to write its record: with `c.original`, a revisit and then `c.revisit`;
   * otherwise a response and then `c.add`. If the body throws or adds nothing, the claim is released.
   *
   * While another worker is storing the payload, the call waits. If the claim is lost because the body took longer than
   * `px` and another worker claimed the payload, the body is called again, now usually with the original of that worker.
   */
  async capture<T>(
    crawl: Bytes,
    hash: Bytes,
    options: CaptureOptions,
    body: (capture: Capture) => T | Promise<T>,
  ): Promise<T> {
    const px = options.px ?? 60_000;
    const end = options.wait === undefined ? Infinity : Date.now() + options.wait;
    const withWacz = options.withWacz ?? false;
    for (let attempt = 1; ; ) {
      const block = Math.max(1, Math.min(px, 30_000, end - Date.now()));
      const claim = await this.claim(crawl, hash, { px, block, withWacz });
      if (claim.state === "pending" && Date.now() < end) continue;
      const capture = new Capture(this, crawl, hash, claim, attempt);
      try {
        const result = await body(capture);
        if (capture.holds()) await capture.release();
        return result;
      } catch (error) {
        await capture.release();
        if (!capture.lostBy(error)) throw error;
        attempt += 1;
      }
    }
  }

  /** Looks up payloads by hash, and returns their records or null. */
  async lookup(
    hashes: readonly Bytes[],
    options: { readonly crawl?: Bytes | undefined; readonly withWacz?: boolean | undefined } = {},
  ): Promise<(Original | null)[]> {
    if (hashes.length === 0) return [];
    const words: Word[] = ["DEDUPE.LOOKUP", this.prefix];
    put(words, "CRAWL", options.crawl);
    if (options.withWacz) words.push("WITHWACZ");
    for (const hash of hashes) words.push(hash);
    return list(await this.link.call(words, REPEAT)).map(maybeOriginal);
  }

  /**
   * Looks up payloads by hash, and returns each original as a single value, `crawl waczIndex date url size`, or null.
   */
  async lookupText(hashes: readonly Bytes[], options: { readonly crawl?: Bytes | undefined } = {}): Promise<(Buffer | null)[]> {
    if (hashes.length === 0) return [];
    const words: Word[] = ["DEDUPE.LOOKUP", this.prefix];
    put(words, "CRAWL", options.crawl);
    words.push("FORMAT", "RECORD", ...hashes);
    return each(maybeBytes)(await this.link.call(words, REPEAT));
  }

  /** Lists the captures of URLs, newest first. Needs {@link indexUrls}. */
  async lookupUrl(
    urls: readonly Bytes[],
    options: { readonly crawl?: Bytes | undefined; readonly limit?: number | undefined; readonly before?: Bytes | undefined } = {},
  ): Promise<UrlCapture[][]> {
    if (urls.length === 0) return [];
    const words: Word[] = ["DEDUPE.LOOKUPURL", this.prefix];
    put(words, "CRAWL", options.crawl);
    put(words, "LIMIT", options.limit);
    put(words, "BEFORE", options.before);
    words.push(...urls);
    return each(each(urlCaptureOf))(await this.link.call(words, REPEAT));
  }

  /** Switches the index by URL on or off, and returns its figures. */
  async indexUrls(on: boolean): Promise<{ readonly on: boolean; readonly crawls: number; readonly records: number }> {
    const words: Word[] = ["DEDUPE.URLS", this.prefix, on ? "ON" : "OFF"];
    const fields = new Fields(await this.link.call(words, REPEAT | WAIT));
    return { on: fields.text("urls") === "on", crawls: fields.int("crawls"), records: fields.int("records") };
  }

  /**
   * Looks up a hash, and reserves it for `px` milliseconds if it is unknown. With `block`, waits for the outcome of
   * another caller's claim.
   */
  async claim(
    crawl: Bytes,
    hash: Bytes,
    options: ClaimOptions & { readonly withWacz?: boolean | undefined },
  ): Promise<Claim> {
    const claim = await this.claims(crawl, hash, options, options.withWacz ? ["WITHWACZ"] : []);
    return claim.state === "dupe" ? { state: "dupe", original: originalOf(claim.found) } : claim;
  }

  /** Claims a payload as {@link claim} does, and returns the original of a known payload as a single value. */
  async claimText(crawl: Bytes, hash: Bytes, options: ClaimOptions): Promise<TextClaim> {
    const claim = await this.claims(crawl, hash, options, ["FORMAT", "RECORD"]);
    return claim.state === "dupe" ? { state: "dupe", text: bytes(claim.found) } : claim;
  }

  private async claims(
    crawl: Bytes,
    hash: Bytes,
    options: ClaimOptions,
    form: readonly string[],
  ): Promise<{ readonly state: "dupe"; readonly found: unknown } | Exclude<Claim, { readonly state: "dupe" }>> {
    const words: Word[] = ["DEDUPE.CLAIM", this.prefix, crawl, hash];
    put(words, "PX", options.px);
    put(words, "BLOCK", options.block);
    words.push(...form);
    const flags = options.block === undefined ? REPEAT : REPEAT | WAIT;
    const reply = list(await this.link.call(words, flags, options.block));
    switch (text(reply[0])) {
      case "DUPE":
        return { state: "dupe", found: reply[1] };
      case "CLAIMED":
        return { state: "claimed", token: text(reply[1]) };
      default:
        return { state: "pending", holder: bytes(reply[1]), left: int(reply[2]) };
    }
  }

  /** Releases a claim. Returns false if it did not exist any more. */
  async unclaim(hash: Bytes, token: string): Promise<boolean> {
    return int(await this.link.call(["DEDUPE.UNCLAIM", this.prefix, hash, token], REPEAT)) === 1;
  }

  /** Starts or continues a crawl. Returns false if it was in progress already. */
  async begin(crawl: Bytes, options: { readonly visible?: boolean | undefined } = {}): Promise<boolean> {
    const words: Word[] = ["DEDUPE.BEGIN", this.prefix, crawl];
    if (options.visible) words.push("VISIBLE");
    return int(await this.link.call(words, REPEAT)) === 1;
  }

  /** Adds response records, and returns how many of their hashes are new in this crawl. Repeats count once (`SEQ`). */
  async add(
    crawl: Bytes,
    records: readonly Response[],
    options: { readonly token?: string | undefined; readonly earliest?: boolean | undefined } = {},
  ): Promise<number> {
    if (records.length === 0) return 0;
    const writer = this.writers.take();
    try {
      const words: Word[] = ["DEDUPE.ADD", this.prefix, crawl];
      put(words, "TOKEN", options.token);
      words.push("SEQ", writer.name, number(writer.n));
      if (options.earliest) words.push("EARLIEST");
      for (const { hash, waczIndex, date, url, size } of records) {
        words.push(hash, number(waczIndex ?? 0), date, url, number(size));
      }
      return int(await this.link.call(words, REPEAT));
    } finally {
      this.writers.give(writer);
    }
  }

  /** Counts revisit records, and returns how many were counted. Repeats count once (`SEQ`). */
  async revisit(crawl: Bytes, records: readonly Revisit[], options: RevisitOptions = {}): Promise<number> {
    if (records.length === 0) return 0;
    const writer = this.writers.take();
    try {
      const words: Word[] = ["DEDUPE.REVISIT", this.prefix, crawl];
      put(words, "REF", options.ref);
      if (options.noRef) words.push("NOREF");
      words.push("SEQ", writer.name, number(writer.n));
      for (const { hash, size, original } of records) {
        words.push(hash, number(size));
        if (original) words.push("ORIGINAL", original.crawl, number(original.waczIndex), number(original.size));
      }
      return int(await this.link.call(words, REPEAT));
    } finally {
      this.writers.give(writer);
    }
  }

  /** Registers a WACZ file that is being written, and returns its index. */
  async waczOpen(crawl: Bytes, filename: Bytes): Promise<number> {
    return int(await this.link.call(["DEDUPE.WACZOPEN", this.prefix, crawl, filename], REPEAT));
  }

  /** Marks a WACZ file as finished. The hash is empty if it is unknown. */
  async waczClose(
    crawl: Bytes,
    file: { readonly index: number; readonly filename: Bytes; readonly hash: Bytes; readonly size: number },
    options: { readonly rename?: boolean | undefined } = {},
  ): Promise<void> {
    const { index, filename, hash, size } = file;
    const words: Word[] = ["DEDUPE.WACZCLOSE", this.prefix, crawl, number(index), filename, hash, number(size)];
    if (options.rename) words.push("RENAME");
    await this.link.call(words, REPEAT);
  }

  /** Lists the WACZ files of a crawl. */
  async waczList(crawl: Bytes): Promise<Wacz[]> {
    return each(waczOf)(await this.link.call(["DEDUPE.WACZLIST", this.prefix, crawl], REPEAT));
  }

  /** Merges a crawl into the index. Returns the number of hashes that were new to the index, and of known ones. */
  async commit(crawl: Bytes): Promise<{ readonly added: number; readonly known: number }> {
    const [added, known] = list(await this.link.call(["DEDUPE.COMMIT", this.prefix, crawl], REPEAT | WAIT));
    return { added: int(added), known: int(known) };
  }

  /** Deletes an uncommitted crawl, and returns the number of dropped hashes. */
  async cancel(crawl: Bytes): Promise<number> {
    return int(await this.link.call(["DEDUPE.CANCEL", this.prefix, crawl], WAIT));
  }

  /** Removes committed crawls. Returns the numbers of crawls, of dropped hashes, and of hashes with a new owner. */
  async remove(...crawls: Bytes[]): Promise<Removed> {
    return removedOf(await this.link.call(["DEDUPE.REMOVE", this.prefix, ...crawls], WAIT));
  }

  /** Declares that these crawls are the whole collection; `purge` removes all other committed crawls. */
  async retain(crawls: readonly Bytes[], options: { readonly purge?: boolean | undefined } = {}): Promise<Removed> {
    const words: Word[] = ["DEDUPE.RETAIN", this.prefix];
    if (options.purge) words.push("PURGE");
    words.push(...crawls);
    return removedOf(await this.link.call(words, REPEAT | WAIT));
  }

  /** Lists the crawls that depend on this one, with the number of their revisits (null if it is unknown). */
  async requiredBy(crawl: Bytes): Promise<{ readonly crawl: Buffer; readonly revisits: number | null }[]> {
    const reply = await this.link.call(["DEDUPE.REQUIREDBY", this.prefix, crawl], REPEAT | WAIT);
    return each((item) => {
      const [by, revisits] = list(item);
      return { crawl: bytes(by), revisits: maybe(int)(revisits) };
    })(reply);
  }

  /** Lists the WACZ files that a crawl, a WACZ file (`ref`), or references (`refs`) need for replay. */
  async requires(what: Requiring, options: { readonly transitive?: boolean | undefined } = {}): Promise<RequiredWacz[]> {
    const words = this.requiring(what, options);
    words.push("FORMAT", "RESP");
    return each((item) => ({ ...waczOf(item), crawl: new Fields(item).read("crawlId", bytes) }))(
      await this.link.call(words, REPEAT | WAIT),
    );
  }

  /** Returns the list of {@link requires} as JSON text for `datapackage.json`. */
  async requiresJson(what: Requiring, options: { readonly transitive?: boolean | undefined } = {}): Promise<string> {
    const words = this.requiring(what, options);
    words.push("FORMAT", "JSON");
    return text(await this.link.call(words, REPEAT | WAIT));
  }

  private requiring(what: Requiring, options: { readonly transitive?: boolean | undefined }): Word[] {
    const words: Word[] = ["DEDUPE.REQUIRES", this.prefix];
    if ("crawl" in what) words.push(what.crawl);
    else if ("ref" in what) words.push("REF", what.ref);
    else {
      words.push("REFS");
      for (const { crawl, waczIndex } of what.refs) {
        words.push(Buffer.concat([Buffer.from(crawl), Buffer.from(` ${number(waczIndex)}`)]));
      }
    }
    if (options.transitive) words.push("TRANSITIVE");
    return words;
  }

  /** Returns the figures of the index. With `samples`, its memory is estimated from this number of crawls. */
  async stats(options: { readonly samples?: number | undefined } = {}): Promise<IndexStats> {
    const words: Word[] = ["DEDUPE.STATS", this.prefix];
    put(words, "SAMPLES", options.samples);
    const fields = new Fields(await this.link.call(words, REPEAT | WAIT));
    return {
      profile: fields.text("profile") as Profile,
      storage: fields.text("storage") as IndexStats["storage"],
      crawls: fields.int("crawls"),
      uncommitted: fields.int("uncommitted"),
      hashes: fields.int("hashes"),
      totalUrls: fields.int("totalUrls"),
      dupeUrls: fields.int("dupeUrls"),
      conservedSize: fields.int("conservedSize"),
      totalCrawlSize: fields.int("totalCrawlSize"),
      removedCrawls: fields.int("removedCrawls"),
      removedCrawlSize: fields.int("removedCrawlSize"),
      updateProgress: fields.maybe("updateProgress", text),
      memory: fields.int("memory"),
    };
  }

  /** Returns the figures of one crawl. */
  async crawlStats(crawl: Bytes): Promise<CrawlStats> {
    const fields = new Fields(await this.link.call(["DEDUPE.STATS", this.prefix, crawl], REPEAT));
    return { ...figuresOf(fields), requires: fields.int("requires"), memory: fields.int("memory") };
  }

  /** Lists crawls, ordered by id: all of them, or those in one state. */
  async crawls(
    options: { readonly only?: "uncommitted" | "committed" | "unlisted" | undefined } = {},
  ): Promise<ListedCrawl[]> {
    const words: Word[] = ["DEDUPE.CRAWLS", this.prefix];
    if (options.only !== undefined) words.push(options.only.toUpperCase());
    const wait = options.only === "unlisted" || this.link.losesNames;
    const reply = await this.link.call(words, wait ? REPEAT | WAIT : REPEAT);
    return pairs(reply).map(([crawl, figures]) => {
      const fields = new Fields(figures);
      return { crawl: bytes(crawl), ...figuresOf(fields), progress: fields.maybe("progress", Number) };
    });
  }

  /** Checks the index for inconsistencies. */
  async check(): Promise<IndexCheck> {
    return checkOf(new Fields(await this.link.call(["DEDUPE.CHECK", this.prefix], REPEAT | WAIT)));
  }

  /** Repairs what {@link check} finds. */
  async repair(): Promise<IndexCheck & { readonly repaired: number }> {
    const fields = new Fields(await this.link.call(["DEDUPE.REPAIR", this.prefix], REPEAT | WAIT));
    return { ...checkOf(fields), repaired: fields.int("repaired") };
  }

  /** Returns the profile of the index. */
  async profile(): Promise<Profile> {
    return text(await this.link.call(["DEDUPE.PROFILE", this.prefix], REPEAT)) as Profile;
  }

  /** Sets the profile of an index that has no crawls. */
  async setProfile(profile: Profile): Promise<void> {
    await this.link.call(["DEDUPE.PROFILE", this.prefix, profile], REPEAT);
  }

  /** Moves the committed part of the index into one packed value. */
  async pack(): Promise<Moved> {
    return movedOf(await this.link.call(["DEDUPE.PACK", this.prefix], REPEAT | WAIT));
  }

  /** Moves a packed index back into the documented keys. */
  async unpack(): Promise<Moved> {
    return movedOf(await this.link.call(["DEDUPE.UNPACK", this.prefix], REPEAT | WAIT));
  }
}

/** The result of a removal. */
export interface Removed {
  readonly crawls: number;
  readonly dropped: number;
  readonly moved: number;
}

/** The crawl, WACZ file or references whose required files {@link Dedupe.requires} lists. */
export type Requiring =
  | { readonly crawl: Bytes }
  | { readonly ref: Bytes }
  | { readonly refs: readonly { readonly crawl: Bytes; readonly waczIndex: number }[] };

const maybeOriginal = maybe(originalOf);

/** Reads a record. Look-ups read many records, so this function accesses elements by index. */
function originalOf(value: unknown): Original {
  const parts = value as unknown[];
  return {
    crawl: bytes(parts[0]),
    waczIndex: int(parts[1]),
    date: bytes(parts[2]),
    url: bytes(parts[3]),
    size: int(parts[4]),
    wacz: maybeBytes(parts[5]),
  };
}

function urlCaptureOf(value: unknown): UrlCapture {
  const [crawl, hash, waczIndex, date, size, wacz] = list(value);
  return {
    crawl: bytes(crawl),
    hash: bytes(hash),
    waczIndex: int(waczIndex),
    date: bytes(date),
    size: int(size),
    wacz: maybeBytes(wacz),
  };
}

function waczOf(value: unknown): Wacz {
  const fields = new Fields(value);
  return {
    filename: fields.read("filename", bytes),
    hash: fields.maybe("hash", bytes),
    size: fields.maybe("size", int),
  };
}

function figuresOf(fields: Fields): CrawlFigures {
  return {
    state: fields.text("state") as CrawlState,
    hashes: fields.int("hashes"),
    totalUrls: fields.int("totalUrls"),
    dupeUrls: fields.int("dupeUrls"),
    conservedSize: fields.int("conservedSize"),
    totalCrawlSize: fields.int("totalCrawlSize"),
    waczs: fields.int("waczs"),
  };
}

function movedOf(value: unknown): Moved {
  const fields = new Fields(value);
  return {
    storage: fields.text("storage"),
    hashes: fields.int("hashes"),
    records: fields.int("records"),
    memory: fields.int("memory"),
  };
}

function removedOf(value: unknown): Removed {
  const [crawls, dropped, moved] = list(value);
  return { crawls: int(crawls), dropped: int(dropped), moved: int(moved) };
}

function checkOf(fields: Fields): IndexCheck {
  return {
    ok: fields.flag("ok"),
    crawls: fields.int("crawls"),
    hashes: fields.int("hashes"),
    danglingOwners: fields.int("danglingOwners"),
    missingHashes: fields.int("missingHashes"),
    hiddenOwners: fields.int("hiddenOwners"),
    badRecords: fields.int("badRecords"),
    countDrift: fields.int("countDrift"),
    leakedKeys: fields.int("leakedKeys"),
    unlistedCrawls: fields.int("unlistedCrawls"),
    toRemoveCrawls: fields.int("toRemoveCrawls"),
    staleHolders: fields.int("staleHolders"),
    interrupted: fields.int("interrupted"),
    placeholders: fields.int("placeholders"),
    urlDrift: fields.maybe("urlDrift", int),
  };
}
