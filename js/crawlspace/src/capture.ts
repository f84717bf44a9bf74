import type { Claim, Dedupe, Original, Response, RevisitOptions } from "./dedupe.js";
import { StaleError } from "./errors.js";
import type { Bytes } from "./reply.js";

/** Options of {@link Dedupe.capture}. */
export interface CaptureOptions {
  /**
   * Lifetime of the claim in milliseconds; 60 000 by default. If this worker dies, another one may
   * store the payload after this time. Choose a longer time than writing the record takes.
   */
  readonly px?: number | undefined;
  /**
   * Time in milliseconds to wait for other workers that are storing the payload; without a limit by default. Afterwards
   * the body stores the payload without a claim, which does no harm.
   */
  readonly wait?: number | undefined;
  /** Returns the name of the WACZ file in {@link Capture.original}. */
  readonly withWacz?: boolean | undefined;
}

/** A payload for which {@link Dedupe.capture} decided whether to store it. */
export class Capture {
  /** The record of the payload if it is known: write a revisit of it. Null: write a response. */
  readonly original: Original | null;
  /** Number of the call of the body, from 1; see {@link Dedupe.capture}. */
  readonly attempt: number;
  private token: string | undefined;
  private lost: unknown;

  /** @internal */
  constructor(
    private readonly dedupe: Dedupe,
    readonly crawl: Bytes,
    readonly hash: Bytes,
    claim: Claim,
    attempt: number,
  ) {
    this.original = claim.state === "dupe" ? claim.original : null;
    this.token = claim.state === "claimed" ? claim.token : undefined;
    this.attempt = attempt;
  }

  /**
   * Adds the response that was written, and settles the claim.
   *
   * @throws {@link StaleError} if another worker has claimed the payload. Do not catch it:
   * `capture` calls the body again.
   */
  async add(record: Omit<Response, "hash">): Promise<void> {
    const { hash, token } = this;
    const { waczIndex, date, url, size } = record;
    try {
      await this.dedupe.add(this.crawl, [{ hash, waczIndex, date, url, size }], { token });
      this.token = undefined;
    } catch (error) {
      if (error instanceof StaleError) {
        this.lost = error;
        this.token = undefined;
      }
      throw error;
    }
  }

  /** Counts the revisit of {@link original} that was written; `size` is the size of its record in bytes. */
  async revisit(size: number, options: RevisitOptions = {}): Promise<void> {
    const { hash, original } = this;
    await this.dedupe.revisit(this.crawl, [{ hash, size, original: original ?? undefined }], options);
  }

  /** Returns true if the claim is not settled.
   * @internal */
  holds(): boolean {
    return this.token !== undefined;
  }

  /** Releases the claim unless it is settled.
   * @internal */
  async release(): Promise<void> {
    const { token } = this;
    if (token === undefined) return;
    this.token = undefined;
    // If this fails, the claim expires by itself. The error of the body is more important.
    await this.dedupe.unclaim(this.hash, token).catch(() => {});
  }

  /** Returns true if this error reported that the claim was lost.
   * @internal */
  lostBy(error: unknown): boolean {
    return this.lost !== undefined && this.lost === error;
  }
}
