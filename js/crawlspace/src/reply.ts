// Parses replies. The result is the same in RESP2 and RESP3, with both clients and all of their settings.

import type { Word } from "./clients.js";

/** Bytes as an argument: a `Buffer`, or text that is sent as UTF-8. */
export type Bytes = string | Buffer;

type Read<T> = (value: unknown) => T;

export const int: Read<number> = (value) => (typeof value === "number" ? value : Number(text(value)));

export const bytes: Read<Buffer> = (value) => (Buffer.isBuffer(value) ? value : Buffer.from(String(value)));

export const text: Read<string> = (value) => (typeof value === "string" ? value : String(value));

export const flag: Read<boolean> = (value) => int(value) === 1;

export const list: Read<unknown[]> = (value) => (Array.isArray(value) ? value : []);

/** Reads nil as null. */
export function maybe<T>(read: Read<T>): Read<T | null> {
  return (value) => (value === null || value === undefined ? null : read(value));
}

/** Reads bytes, or nil as null. */
export const maybeBytes: Read<Buffer | null> = maybe(bytes);

export function each<T>(read: Read<T>): Read<T[]> {
  return (value) => list(value).map(read);
}

/** Reads the pairs of a map, whose names may be any bytes. */
export function pairs(value: unknown): [unknown, unknown][] {
  if (Array.isArray(value)) {
    const found: [unknown, unknown][] = [];
    for (let i = 0; i + 1 < value.length; i += 2) found.push([value[i], value[i + 1]]);
    return found;
  }
  if (value instanceof Map) return [...value];
  return Object.entries((value ?? {}) as Record<string, unknown>);
}

/** A map with names that are text. */
export class Fields {
  private readonly values: Map<string, unknown>;

  constructor(value: unknown) {
    this.values = new Map(pairs(value).map(([name, field]) => [text(name), field]));
  }

  read<T>(name: string, read: Read<T>): T {
    return read(this.values.get(name));
  }

  maybe<T>(name: string, read: Read<T>): T | null {
    return maybe(read)(this.values.get(name));
  }

  int(name: string): number {
    return int(this.values.get(name));
  }

  text(name: string): string {
    return text(this.values.get(name));
  }

  flag(name: string): boolean {
    return flag(this.values.get(name));
  }
}

/** Appends an option and its value, unless the value is undefined. */
export function put(words: Word[], name: string, value: Bytes | number | undefined): void {
  if (value !== undefined) words.push(name, typeof value === "number" ? number(value) : value);
}

/** Formats a number. */
export function number(value: number): string {
  if (Number.isSafeInteger(value)) return String(value);
  // Large integers would otherwise be sent with an exponent.
  if (Number.isInteger(value)) return BigInt(value).toString();
  if (!Number.isFinite(value)) throw new RangeError(`${value} is not a finite number`);
  return String(value);
}
