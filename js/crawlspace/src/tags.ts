import type { RedisClient, Word } from "./clients.js";
import { cursorOf, type Page, type PageOptions } from "./frontier.js";
import { Link, REPEAT, type LinkOptions } from "./link.js";
import { bytes, each, Fields, flag, int, list, put, text, type Bytes } from "./reply.js";

/** Settings of a {@link Tags}. */
export interface TagsOptions extends LinkOptions {}

/** A type of ids. */
export type TagType = "record" | "file" | "tag";

/** Tags of an id. */
export interface Tagged {
  readonly id: Bytes;
  readonly tags: readonly Bytes[];
}

/** Tags of an id, as the server returns them. */
export interface TaggedId {
  readonly id: Buffer;
  readonly tags: readonly Buffer[];
}

/** A condition on captures. */
export interface Condition {
  /** Name of an access point. */
  readonly point?: Bytes | undefined;
  /** An expression over tags and fields. */
  readonly where?: Bytes | undefined;
  /** Filters in the syntax of CDX servers. */
  readonly filters?: readonly Bytes[] | undefined;
  /** The server whose filter syntax is used. */
  readonly dialect?: "outback" | "ia" | "pywb" | undefined;
  /** Keeps the first of consecutive captures with the same value of this field, or the same first bytes (`field:n`). */
  readonly collapse?: Bytes | undefined;
  readonly skip?: number | undefined;
  readonly limit?: number | undefined;
  readonly format?: "auto" | "cdx" | "cdxj" | "record" | "file" | undefined;
  /** Omits lines that cannot be parsed (`drop`) instead of failing. */
  readonly badLines?: "error" | "drop" | undefined;
}

/** A part of a condition, its result, and its own parts. */
export interface Clause {
  readonly text: string;
  readonly result: boolean;
  readonly parts: readonly Clause[];
}

/** The explanation of {@link Tags.explain}. */
export interface Explanation {
  readonly keep: boolean;
  readonly why: string;
  readonly format: string;
  readonly record: Buffer;
  readonly tags: readonly { readonly tag: Buffer; readonly source: string }[];
  readonly clauses: readonly Clause[];
}

/** A rule that derives tags from a field. */
export interface Rule {
  readonly name: Buffer;
  readonly field: string;
  readonly regex: Buffer;
  readonly templates: readonly Buffer[];
}

/** A named access point. */
export interface Point {
  readonly name: Buffer;
  readonly expression: Buffer;
}

/** The figures of a tag space. */
export interface TagsInfo {
  readonly recordIds: number;
  readonly recordEdges: number;
  readonly fileIds: number;
  readonly fileEdges: number;
  readonly tagIds: number;
  readonly tagEdges: number;
  readonly stagedRecordIds: number;
  readonly stagedFileIds: number;
  readonly stagedTagIds: number;
  readonly tags: number;
  readonly rules: number;
  readonly points: number;
  readonly memory: number;
}

/** The tag space at a key. */
export class Tags {
  private readonly link: Link;

  /** Creates a tag space with the connection of the client. */
  constructor(
    client: RedisClient,
    readonly key: Bytes,
    options: TagsOptions = {},
  ) {
    this.link = new Link(client, options);
  }

  /** Adds tags to a capture, a file or a tag, and returns how many are new. */
  async add(type: TagType, id: Bytes, tags: readonly Bytes[]): Promise<number> {
    return int(await this.link.call(["TAGS.ADD", this.key, type.toUpperCase(), id, ...tags], REPEAT));
  }

  /** Removes tags, and returns how many were removed. */
  async remove(type: TagType, id: Bytes, tags: readonly Bytes[]): Promise<number> {
    return int(await this.link.call(["TAGS.REM", this.key, type.toUpperCase(), id, ...tags], REPEAT));
  }

  /** Returns the tags of an id; with `all`, also those from rules and those that its tags carry. */
  async get(type: TagType, id: Bytes, options: { readonly all?: boolean | undefined } = {}): Promise<Buffer[]> {
    const words: Word[] = ["TAGS.GET", this.key, type.toUpperCase(), id];
    if (options.all) words.push("ALL");
    return each(bytes)(await this.link.call(words, REPEAT));
  }

  /** Loads the tags of many ids, and returns the number of ids given. */
  async load(type: TagType, mode: "merge" | "set" | "replace" | "stage", items: readonly Tagged[]): Promise<number> {
    const words: Word[] = ["TAGS.LOAD", this.key, type.toUpperCase(), mode.toUpperCase()];
    for (const { id, tags } of items) words.push(id, joined(tags));
    return int(await this.link.call(words, REPEAT));
  }

  /** Replaces all ids of a type by the staged copy, and returns their number. */
  async swap(type: TagType, options: { readonly expect?: number | undefined } = {}): Promise<number> {
    const words: Word[] = ["TAGS.SWAP", this.key, type.toUpperCase()];
    put(words, "EXPECT", options.expect);
    return int(await this.link.call(words));
  }

  /** Deletes the staged copy, and returns the number of its ids. */
  async discard(type: TagType): Promise<number> {
    return int(await this.link.call(["TAGS.SWAP", this.key, type.toUpperCase(), "DISCARD"], REPEAT));
  }

  /** Returns the lines of captures that pass. */
  async filter(lines: readonly Bytes[], condition: Condition = {}): Promise<Buffer[]> {
    return each(bytes)(await this.filtering(lines, condition, "LINES"));
  }

  /** Returns the given lines that pass, as a single value with a line feed after each line. */
  async filterText(lines: Bytes, condition: Condition = {}): Promise<Buffer> {
    return bytes(await this.filtering(lines, condition, "LINES"));
  }

  /** Returns the positions of the lines that pass, from 0. */
  async filterIndex(lines: readonly Bytes[] | Bytes, condition: Condition = {}): Promise<number[]> {
    return each(int)(await this.filtering(lines, condition, "INDEX"));
  }

  /** Returns one bit for each line, which is 1 if the line passes; the first line is the highest bit. */
  async filterBits(lines: readonly Bytes[] | Bytes, condition: Condition = {}): Promise<Buffer> {
    return bytes(await this.filtering(lines, condition, "BITS"));
  }

  /** Counts the lines that pass. */
  async filterCount(lines: readonly Bytes[] | Bytes, condition: Condition = {}): Promise<number> {
    return int(await this.filtering(lines, condition, "COUNT"));
  }

  /** Returns the positions of the lines that pass, with all tags of each capture. */
  async filterTags(
    lines: readonly Bytes[] | Bytes,
    condition: Condition = {},
  ): Promise<{ readonly line: number; readonly tags: readonly Buffer[] }[]> {
    return each((item) => {
      const [line, tags] = list(item);
      return { line: int(line), tags: each(bytes)(tags) };
    })(await this.filtering(lines, condition, "TAGS"));
  }

  private filtering(lines: readonly Bytes[] | Bytes, condition: Condition, form: string): Promise<unknown> {
    const words: Word[] = ["TAGS.FILTER", this.key];
    putCondition(words, condition);
    words.push("RETURN", form);
    if (Array.isArray(lines)) words.push("LINES", ...(lines as readonly Bytes[]));
    else words.push("BLOB", lines as Bytes);
    return this.link.call(words, REPEAT);
  }

  /** Explains why a capture passes the condition or not. */
  async explain(line: Bytes, condition: Condition = {}): Promise<Explanation> {
    const words: Word[] = ["TAGS.EXPLAIN", this.key];
    putCondition(words, condition);
    words.push("LINES", line);
    const fields = new Fields(await this.link.call(words, REPEAT));
    return {
      keep: fields.flag("keep"),
      why: fields.text("why"),
      format: fields.text("format"),
      record: fields.read("record", bytes),
      tags: fields.read("tags", each((pair) => {
        const [tag, source] = list(pair);
        return { tag: bytes(tag), source: text(source) };
      })),
      clauses: fields.read("clauses", each(clauseOf)),
    };
  }

  /** Sets a rule: if the regular expression matches in the field, each template gives a tag. */
  async setRule(name: Bytes, field: string, regex: Bytes, templates: readonly Bytes[]): Promise<void> {
    await this.link.call(["TAGS.RULESET", this.key, name, field, regex, ...templates], REPEAT);
  }

  /** Deletes a rule. Returns false if it did not exist. */
  async deleteRule(name: Bytes): Promise<boolean> {
    return flag(await this.link.call(["TAGS.RULEDEL", this.key, name], REPEAT));
  }

  /** Lists the rules in the order in which they were set. */
  async rules(): Promise<Rule[]> {
    return each((rule) => {
      const [name, field, regex, templates] = list(rule);
      return { name: bytes(name), field: text(field), regex: bytes(regex), templates: each(bytes)(templates) };
    })(await this.link.call(["TAGS.RULES", this.key], REPEAT));
  }

  /** Sets a named access point, or a pattern of names. */
  async setPoint(name: Bytes, expression: Bytes): Promise<void> {
    await this.link.call(["TAGS.POINTSET", this.key, name, expression], REPEAT);
  }

  /** Deletes an access point. Returns false if it did not exist. */
  async deletePoint(name: Bytes): Promise<boolean> {
    return flag(await this.link.call(["TAGS.POINTDEL", this.key, name], REPEAT));
  }

  /** Lists the access points in the order in which they were set. */
  async points(): Promise<Point[]> {
    return each(pointOf)(await this.link.call(["TAGS.POINTS", this.key], REPEAT));
  }

  /** Resolves a name to its access point. */
  async point(name: Bytes): Promise<Point> {
    const [point] = list(await this.link.call(["TAGS.POINTS", this.key, name], REPEAT));
    return pointOf(point);
  }

  /** Returns a page of the tags that satisfy an expression. */
  async list(expression: Bytes, options: PageOptions & { readonly prefix?: Bytes | undefined } = {}): Promise<Page<Buffer>> {
    const words: Word[] = ["TAGS.LIST", this.key, expression];
    put(words, "PREFIX", options.prefix);
    put(words, "CURSOR", options.cursor ?? undefined);
    put(words, "COUNT", options.count);
    const [cursor, tags] = list(await this.link.call(words, REPEAT));
    return { cursor: cursorOf(cursor), items: each(bytes)(tags) };
  }

  /** Returns a page of the ids of one type, with their tags. */
  async scan(type: TagType, options: PageOptions & { readonly prefix?: Bytes | undefined } = {}): Promise<Page<TaggedId>> {
    const words: Word[] = ["TAGS.SCAN", this.key, type.toUpperCase(), options.cursor ?? "0"];
    put(words, "PREFIX", options.prefix);
    put(words, "COUNT", options.count);
    const [cursor, flat] = list(await this.link.call(words, REPEAT));
    const all = each(bytes)(flat);
    const items: TaggedId[] = [];
    for (let i = 0; i + 1 < all.length; i += 2) items.push({ id: all[i] as Buffer, tags: split(all[i + 1] as Buffer) });
    return { cursor: cursorOf(cursor), items };
  }

  /** Returns the figures of the space. */
  async info(): Promise<TagsInfo> {
    const fields = new Fields(await this.link.call(["TAGS.INFO", this.key], REPEAT));
    return {
      recordIds: fields.int("record-ids"),
      recordEdges: fields.int("record-edges"),
      fileIds: fields.int("file-ids"),
      fileEdges: fields.int("file-edges"),
      tagIds: fields.int("tag-ids"),
      tagEdges: fields.int("tag-edges"),
      stagedRecordIds: fields.int("staged-record-ids"),
      stagedFileIds: fields.int("staged-file-ids"),
      stagedTagIds: fields.int("staged-tag-ids"),
      tags: fields.int("tags"),
      rules: fields.int("rules"),
      points: fields.int("points"),
      memory: fields.int("memory"),
    };
  }
}

function putCondition(words: Word[], condition: Condition): void {
  put(words, "POINT", condition.point);
  put(words, "WHERE", condition.where);
  if (condition.dialect !== undefined) words.push("DIALECT", condition.dialect.toUpperCase());
  put(words, "COLLAPSE", condition.collapse);
  put(words, "SKIP", condition.skip);
  put(words, "LIMIT", condition.limit);
  if (condition.format !== undefined) words.push("FORMAT", condition.format.toUpperCase());
  if (condition.badLines !== undefined) words.push("BADLINES", condition.badLines.toUpperCase());
  // Each filter has its own `FILTER` keyword, so that it may be any word.
  for (const spec of condition.filters ?? []) words.push("FILTER", spec);
}

function clauseOf(value: unknown): Clause {
  const [clause, result, parts] = list(value);
  return { text: text(clause), result: flag(result), parts: each(clauseOf)(parts) };
}

function pointOf(value: unknown): Point {
  const [name, expression] = list(value);
  return { name: bytes(name), expression: bytes(expression) };
}

/** Joins tags by spaces, as `TAGS.LOAD` takes them. */
function joined(tags: readonly Bytes[]): Word {
  if (tags.every((tag) => typeof tag === "string")) return tags.join(" ");
  const parts = tags.flatMap((tag, i) => (i === 0 ? [Buffer.from(tag)] : [Buffer.from(" "), Buffer.from(tag)]));
  return Buffer.concat(parts);
}

/** Splits tags at spaces. */
function split(tags: Buffer): Buffer[] {
  const found: Buffer[] = [];
  for (let begin = 0; begin < tags.length; ) {
    const space = tags.indexOf(0x20, begin);
    const end = space < 0 ? tags.length : space;
    found.push(tags.subarray(begin, end));
    begin = end + 1;
  }
  return found;
}
