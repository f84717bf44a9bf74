// Numbers of calls that are safe to repeat.

import { randomBytes } from "node:crypto";

/** A sequence of calls, and the number of the last one. */
interface Writer {
  readonly name: string;
  n: number;
}

/**
 * Names of writers with the number of their last call, for the option `SEQ`.
 *
 * A retried call must not arrive after a later call of the same writer. Therefore, calls that run
 * at the same time use different writers.
 */
export class Writers {
  private readonly base = `js-${randomBytes(9).toString("base64url")}`;
  private readonly free: Writer[] = [];
  private count = 0;

  /** Returns a writer with its next number. Give it back after the call. */
  take(): Writer {
    const writer = this.free.pop() ?? { name: `${this.base}-${this.count++}`, n: 0 };
    writer.n += 1;
    return writer;
  }

  give(writer: Writer): void {
    this.free.push(writer);
  }
}
