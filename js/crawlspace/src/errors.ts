/**
 * An error that the server returned, or a connection that failed for longer than the client retries.
 *
 * Use `code` or the subclass in programs; the message is for people and may change.
 */
export class CrawlspaceError extends Error {
  /** The first word of the server's error, such as `STALE`; `CONNECTION` if there was no reply. */
  readonly code: string;

  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** The connection failed or stayed closed; `cause` is the error of the client library. */
export class ConnectionError extends CrawlspaceError {}
/** `ERR`: an argument is invalid; the message names it. */
export class ArgumentError extends CrawlspaceError {}
/** `BADCRAWL`: the crawl id is empty, too long, or collides with a key name. */
export class BadCrawlError extends CrawlspaceError {}
/** `BADFIELD`: the name of a field is invalid, or the lines have no such field. */
export class BadFieldError extends CrawlspaceError {}
/** `BADFORMAT`: a newer version of the module wrote the data. */
export class BadFormatError extends CrawlspaceError {}
/** `BADHASH`: the hash is too short, too long, or has control bytes. */
export class BadHashError extends CrawlspaceError {}
/** `BADLINE`: a line of captures cannot be parsed. */
export class BadLineError extends CrawlspaceError {}
/** `BADPREFIX`: the prefix is too long, or has no hash tag in a cluster. */
export class BadPrefixError extends CrawlspaceError {}
/** `BADRE`: a regular expression is malformed or too large. */
export class BadRegexError extends CrawlspaceError {}
/** `BUSY`: the server runs a slow script, or another module called the command from a callback. */
export class BusyError extends CrawlspaceError {}
/** `CANCELED`: the crawl was canceled while the command waited. */
export class CanceledError extends CrawlspaceError {}
/** `CLUSTERDOWN`: the cluster does not serve the slot. */
export class ClusterDownError extends CrawlspaceError {}
/** `COMMITTED`: the crawl is committed and has no changes since; use `remove`. */
export class CommittedError extends CrawlspaceError {}
/** `CYCLE`: tags would carry themselves, or access points refer to each other in a cycle. */
export class CycleError extends CrawlspaceError {}
/** `HASCRAWLS`: the index already has crawls, so its profile cannot change. */
export class HasCrawlsError extends CrawlspaceError {}
/** `KNOWN`: the command would contradict the URLs that the frontier remembers. */
export class KnownError extends CrawlspaceError {}
/** `LEASED`: a worker holds a lease of the group. */
export class LeasedError extends CrawlspaceError {}
/** `LOADING`: the server is loading its data. */
export class LoadingError extends CrawlspaceError {}
/** `MIXED`: a plain key exists under the name of a marker of a packed frontier. */
export class MixedError extends CrawlspaceError {}
/** `NOCHG`: the group does not exist. */
export class NoGroupError extends CrawlspaceError {}
/** `NOCRAWL`: the crawl does not exist. */
export class NoCrawlError extends CrawlspaceError {}
/** `NOHASH`: the hash of a revisit is unknown. */
export class NoHashError extends CrawlspaceError {}
/** `NOPERM`: the user may not use a key or a command. */
export class NoPermissionError extends CrawlspaceError {}
/** `NOPOINT`: no access point has this name. */
export class NoPointError extends CrawlspaceError {}
/** `NOSTAGE`: no staged copy exists, or it holds a different number of ids. */
export class NoStageError extends CrawlspaceError {}
/** `NOURLS`: the index by URL does not exist or is incomplete. */
export class NoUrlsError extends CrawlspaceError {}
/** `OOM`: the server is at `maxmemory`. */
export class OutOfMemoryError extends CrawlspaceError {}
/** `PLAIN`: the command needs a packed frontier; call `pack` first. */
export class PlainError extends CrawlspaceError {}
/** `PURGING`: a purge by Browsertrix is running or was interrupted. */
export class PurgingError extends CrawlspaceError {}
/** `READONLY`: the server is a replica. */
export class ReadOnlyError extends CrawlspaceError {}
/** `REMOVING`: the crawl is being removed or canceled. */
export class RemovingError extends CrawlspaceError {}
/** `STALE`: the lease or claim expired or belongs to another caller; nothing was changed. */
export class StaleError extends CrawlspaceError {}
/** `SYNTAX`: an expression cannot be parsed. */
export class ExpressionError extends CrawlspaceError {}
/** `TOOBIG`: the call exceeds a limit. */
export class TooBigError extends CrawlspaceError {}
/** `TRYAGAIN`: the slot moves to another node; nothing was done. */
export class TryAgainError extends CrawlspaceError {}
/** `UNBLOCKED`: the wait ended because the role of the server or its data changed. */
export class UnblockedError extends CrawlspaceError {}
/** `UNCOMMITTED`: the crawl was never committed; use `cancel`. */
export class UncommittedError extends CrawlspaceError {}
/** `WRONGTYPE`: a key holds another type. */
export class WrongTypeError extends CrawlspaceError {}

/** The class of each code word. */
export const ERRORS: ReadonlyMap<string, typeof CrawlspaceError> = new Map<string, typeof CrawlspaceError>([
  ["BADCRAWL", BadCrawlError],
  ["BADFIELD", BadFieldError],
  ["BADFORMAT", BadFormatError],
  ["BADHASH", BadHashError],
  ["BADLINE", BadLineError],
  ["BADPREFIX", BadPrefixError],
  ["BADRE", BadRegexError],
  ["BUSY", BusyError],
  ["CANCELED", CanceledError],
  ["CLUSTERDOWN", ClusterDownError],
  ["COMMITTED", CommittedError],
  ["CONNECTION", ConnectionError],
  ["CYCLE", CycleError],
  ["ERR", ArgumentError],
  ["HASCRAWLS", HasCrawlsError],
  ["KNOWN", KnownError],
  ["LEASED", LeasedError],
  ["LOADING", LoadingError],
  ["MIXED", MixedError],
  ["NOCHG", NoGroupError],
  ["NOCRAWL", NoCrawlError],
  ["NOHASH", NoHashError],
  ["NOPERM", NoPermissionError],
  ["NOPOINT", NoPointError],
  ["NOSTAGE", NoStageError],
  ["NOURLS", NoUrlsError],
  ["OOM", OutOfMemoryError],
  ["PLAIN", PlainError],
  ["PURGING", PurgingError],
  ["READONLY", ReadOnlyError],
  ["REMOVING", RemovingError],
  ["STALE", StaleError],
  ["SYNTAX", ExpressionError],
  ["TOOBIG", TooBigError],
  ["TRYAGAIN", TryAgainError],
  ["UNBLOCKED", UnblockedError],
  ["UNCOMMITTED", UncommittedError],
  ["WRONGTYPE", WrongTypeError],
]);

/** Converts the text of a server's error to an error of the class for its code word. */
export function errorOf(text: string, cause?: unknown): CrawlspaceError {
  const unknown = /^ERR unknown command ['`]((?:CHG|DEDUPE|TAGS)\.\w+)/.exec(text);
  if (unknown) {
    text = `ERR the server does not know ${unknown[1]}: load the module, libcrawlspace.so, in a current version, with ` +
      "loadmodule in redis.conf";
  }
  const code = text.split(" ", 1)[0] ?? "";
  const known = ERRORS.get(code) ?? CrawlspaceError;
  return new known(code, text, { cause });
}
