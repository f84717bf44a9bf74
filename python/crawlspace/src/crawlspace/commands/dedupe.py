"""The commands of a dedupe index, ``DEDUPE.*``."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..replies import (
    Capture,
    Claim,
    Committed,
    CrawlState,
    CrawlStats,
    Dependent,
    IndexCheck,
    IndexStats,
    Packed,
    Record,
    Removed,
    RequiredWacz,
    UrlIndex,
    Wacz,
    WaczRecord,
    named,
    new,
    pairs,
    rows,
)
from . import Bytes, Command, Seq, Wait, Word, data, many, nothing, number, row, same, text, word


class Response(NamedTuple):
    """A ``response`` record that was written. A plain tuple is also accepted."""

    hash: Bytes
    #: 14 digits, 17 digits, or ISO form.
    date: Bytes
    url: Bytes
    #: Bytes of the stored record.
    size: int
    #: Index from ``wacz_open``; 0 if the crawl has no WACZ.
    wacz_index: int = 0


class Revisit(NamedTuple):
    """A ``revisit`` record that was written. A plain tuple is also accepted."""

    hash: Bytes
    #: Bytes of the stored record.
    size: int
    #: The record that the revisit refers to; if it is None, the command looks it up.
    original: Optional[Record] = None


def add(
    prefix: bytes,
    crawl: Bytes,
    records: Iterable[Sequence[Any]],
    *,
    token: Optional[int] = None,
    earliest: bool = False,
    seq: Seq = None,
) -> Command[int]:
    """Adds ``response`` records that were written, given as ``Response`` (DEDUPE.ADD).

    ``token`` settles a claim. Returns the number of hashes that are new in this crawl. The client numbers the call, so
    that it counts once even if it is repeated; ``seq`` sets another writer and number.
    """
    words: List[Word] = ["DEDUPE.ADD", prefix, data(crawl)]
    if token is not None:
        words += (b"TOKEN", token)
    seq_at = len(words) if seq is None else 0
    if seq:
        words += (b"SEQ", data(seq[0]), seq[1])
    if earliest:
        words.append(b"EARLIEST")
    start = len(words)
    for record in records:
        hash, date, url, size, wacz_index = record if len(record) == 5 else row(Response, record)
        words += (
            hash if type(hash) is bytes else data(hash),
            wacz_index,
            date if type(date) is bytes else data(date),
            url if type(url) is bytes else data(url),
            size,
        )
    return Command(words, same, None, seq_at) if len(words) > start else Command([], lambda _: 0)


def begin(prefix: bytes, crawl: Bytes, *, visible: bool = False) -> Command[bool]:
    """Starts a crawl, which other crawls see while it runs if it is ``visible`` (DEDUPE.BEGIN).

    Returns False if it was in progress already.
    """
    return Command(["DEDUPE.BEGIN", prefix, data(crawl), *([b"VISIBLE"] if visible else [])], bool)


def cancel(prefix: bytes, crawl: Bytes) -> Command[int]:
    """Deletes an uncommitted crawl, and returns the number of dropped hashes (DEDUPE.CANCEL).

    A call that fails is not repeated.
    """
    return Command(["DEDUPE.CANCEL", prefix, data(crawl)], same, is_repeatable=False, is_job=True)


_check = named(IndexCheck)


def check(prefix: bytes) -> Command[IndexCheck]:
    """Checks the index for inconsistencies (DEDUPE.CHECK)."""
    return Command(["DEDUPE.CHECK", prefix], _check, is_job=True)


def _claim(reply: Any) -> Claim:
    outcome = reply[0]
    if outcome == b"CLAIMED":
        return new(Claim, ("claimed", None, int(reply[1]), None, None, None, None))
    if outcome == b"PENDING":
        return Claim("pending", holder=reply[1], left=reply[2])
    row = reply[1]
    if isinstance(row, bytes):
        return Claim("dupe", text=row)
    return new(Claim, ("dupe", new(Record, row[:5]), None, None, None, row[5] if len(row) > 5 else None, None))


def _is_pending(reply: Any) -> bool:
    is_pending: bool = reply[0] == b"PENDING"
    return is_pending


_PENDING = Wait(_is_pending)


def claim(
    prefix: bytes,
    crawl: Bytes,
    hash: Bytes,
    px: int,
    *,
    block: Optional[int] = None,
    with_wacz: bool = False,
    as_text: bool = False,
) -> Command[Claim]:
    """Looks up a hash, and reserves it for ``px`` milliseconds if it is unknown (DEDUPE.CLAIM).

    ``block`` waits for another caller's record for up to this time, 0 without a limit. The client splits a wait that
    is longer than its timeout. With ``as_text``, a ``dupe`` has a ``text`` instead of an ``original``.
    """
    words: List[Word] = ["DEDUPE.CLAIM", prefix, data(crawl), data(hash), b"PX", px]
    if with_wacz:
        words.append(b"WITHWACZ")
    if as_text:
        words += (b"FORMAT", b"RECORD")
    if block is None:
        return Command(words, _claim)
    words += (b"BLOCK", block)
    return Command(words, _claim, _PENDING)


def commit(prefix: bytes, crawl: Bytes) -> Command[Committed]:
    """Merges a finished crawl into the index (DEDUPE.COMMIT)."""
    return Command(["DEDUPE.COMMIT", prefix, data(crawl)], lambda reply: Committed(*reply), is_job=True)


_crawl_state = named(CrawlState)


def crawls(prefix: bytes, *, state: Optional[str] = None) -> Command[Dict[bytes, CrawlState]]:
    """Returns the crawls; ``state`` is ``committed``, ``uncommitted`` or ``unlisted`` (DEDUPE.CRAWLS)."""
    words: List[Word] = ["DEDUPE.CRAWLS", prefix]
    if state is not None:
        words.append(word(state, ("committed", "uncommitted", "unlisted")))
    return Command(words, lambda reply: {crawl: _crawl_state(row) for crawl, row in pairs(reply)}, is_job=True)


_records, _wacz_records = rows(Record), rows(WaczRecord)


def lookup(
    prefix: bytes, hashes: Iterable[Bytes], *, crawl: Optional[Bytes] = None
) -> Command[List[Optional[Record]]]:
    """Returns the original record of each hash, or None if it is unknown (DEDUPE.LOOKUP).

    With ``crawl``, uncommitted hashes of this crawl are known, too.
    """
    words: List[Word] = ["DEDUPE.LOOKUP", prefix]
    text(words, b"CRAWL", crawl)
    found = many(hashes)
    if not found:
        return Command([], lambda _: [])
    return Command(words + found, _records)


def lookup_with_wacz(
    prefix: bytes, hashes: Iterable[Bytes], *, crawl: Optional[Bytes] = None
) -> Command[List[Optional[WaczRecord]]]:
    """Returns the original record of each hash with its WACZ file, or None if it is unknown (DEDUPE.LOOKUP)."""
    words: List[Word] = ["DEDUPE.LOOKUP", prefix]
    text(words, b"CRAWL", crawl)
    found = many(hashes)
    if not found:
        return Command([], lambda _: [])
    return Command([*words, b"WITHWACZ", *found], _wacz_records)


def lookup_text(
    prefix: bytes, hashes: Iterable[Bytes], *, crawl: Optional[Bytes] = None
) -> Command[List[Optional[bytes]]]:
    """Returns each original as a single value, ``crawl waczIndex date url size``, or None (DEDUPE.LOOKUP)."""
    words: List[Word] = ["DEDUPE.LOOKUP", prefix]
    text(words, b"CRAWL", crawl)
    found = many(hashes)
    return Command([*words, b"FORMAT", b"RECORD", *found], same) if found else Command([], lambda _: [])


def lookup_url(
    prefix: bytes,
    urls: Iterable[Bytes],
    *,
    crawl: Optional[Bytes] = None,
    limit: Optional[int] = None,
    before: Optional[Bytes] = None,
) -> Command[List[List[Capture]]]:
    """Returns the known captures of each URL, newest first (DEDUPE.LOOKUPURL)."""
    words: List[Word] = ["DEDUPE.LOOKUPURL", prefix]
    text(words, b"CRAWL", crawl)
    number(words, b"LIMIT", limit)
    text(words, b"BEFORE", before)
    names = many(urls)
    if not names:
        return Command([], lambda _: [])
    return Command([*words, *names], lambda reply: [[Capture(*row) for row in rows] for rows in reply], is_job=True)


_packed = named(Packed)


def pack(prefix: bytes) -> Command[Packed]:
    """Moves the committed part into one packed value (DEDUPE.PACK)."""
    return Command(["DEDUPE.PACK", prefix], _packed, is_job=True)


def profile(prefix: bytes, profile: Optional[str] = None) -> Command[str]:
    """Returns the profile of the index, or sets it: ``document`` or ``browsertrix`` (DEDUPE.PROFILE)."""
    if profile is not None:
        return Command(["DEDUPE.PROFILE", prefix, data(profile)], lambda _: profile)
    return Command(["DEDUPE.PROFILE", prefix], lambda reply: str(reply.decode()))


def remove(prefix: bytes, crawls: Iterable[Bytes]) -> Command[Removed]:
    """Removes committed crawls from the index (DEDUPE.REMOVE). A call that fails is not repeated."""
    words: List[Word] = ["DEDUPE.REMOVE", prefix, *many(crawls)]
    return Command(words, lambda reply: Removed(*reply), is_repeatable=False, is_job=True)


def repair(prefix: bytes) -> Command[IndexCheck]:
    """Repairs the problems that ``check`` finds (DEDUPE.REPAIR)."""
    return Command(["DEDUPE.REPAIR", prefix], _check, is_job=True)


def required_by(prefix: bytes, crawl: Bytes) -> Command[List[Dependent]]:
    """Lists the crawls that depend on this one (DEDUPE.REQUIREDBY)."""
    words: List[Word] = ["DEDUPE.REQUIREDBY", prefix, data(crawl)]
    return Command(words, lambda reply: [Dependent(*row) for row in reply], is_job=True)


_required = named(RequiredWacz)


def _requires(
    prefix: bytes,
    crawl: Optional[Bytes],
    ref: Optional[Bytes],
    refs: Optional[Iterable[Tuple[Bytes, int]]],
    transitive: bool,
) -> List[Word]:
    if (crawl is not None) + (ref is not None) + (refs is not None) != 1:
        raise ValueError("requires takes one of crawl, ref and refs")
    words: List[Word] = ["DEDUPE.REQUIRES", prefix]
    if crawl is not None:
        words.append(data(crawl))
    text(words, b"REF", ref)
    if refs is not None:
        words += (b"REFS", *(b"%s %d" % (data(name), index) for name, index in refs))
    if transitive:
        words.append(b"TRANSITIVE")
    return words


def requires(
    prefix: bytes,
    crawl: Optional[Bytes] = None,
    *,
    ref: Optional[Bytes] = None,
    refs: Optional[Iterable[Tuple[Bytes, int]]] = None,
    transitive: bool = False,
) -> Command[List[RequiredWacz]]:
    """Lists the WACZ files that a crawl, the WACZ file ``ref``, or pairs of crawl and index need (DEDUPE.REQUIRES)."""
    words = _requires(prefix, crawl, ref, refs, transitive)
    return Command([*words, b"FORMAT", b"RESP"], lambda reply: [_required(row) for row in reply], is_job=True)


def requires_json(
    prefix: bytes,
    crawl: Optional[Bytes] = None,
    *,
    ref: Optional[Bytes] = None,
    refs: Optional[Iterable[Tuple[Bytes, int]]] = None,
    transitive: bool = False,
) -> Command[bytes]:
    """Returns the list of ``requires`` as JSON, for ``relation.requires`` of datapackage.json (DEDUPE.REQUIRES)."""
    return Command([*_requires(prefix, crawl, ref, refs, transitive), b"FORMAT", b"JSON"], same, is_job=True)


def retain(prefix: bytes, crawls: Iterable[Bytes], *, purge: bool = False) -> Command[Removed]:
    """Declares that these crawls are the whole collection; ``purge`` removes the other ones (DEDUPE.RETAIN)."""
    words: List[Word] = ["DEDUPE.RETAIN", prefix, *([b"PURGE"] if purge else []), *many(crawls)]
    return Command(words, lambda reply: Removed(*reply), is_job=True)


def revisit(
    prefix: bytes,
    crawl: Bytes,
    records: Iterable[Sequence[Any]],
    *,
    ref: Optional[Bytes] = None,
    no_ref: bool = False,
    seq: Seq = None,
) -> Command[int]:
    """Counts ``revisit`` records that were written, given as ``Revisit`` (DEDUPE.REVISIT).

    Returns the number of counted revisits. The client numbers the call, so that it counts once even if it is repeated;
    ``seq`` sets another writer and number.
    """
    words: List[Word] = ["DEDUPE.REVISIT", prefix, data(crawl)]
    text(words, b"REF", ref)
    if no_ref:
        words.append(b"NOREF")
    seq_at = len(words) if seq is None else 0
    if seq:
        words += (b"SEQ", data(seq[0]), seq[1])
    start = len(words)
    for record in records:
        hash, size, original = record if len(record) == 3 else row(Revisit, record)
        words += (hash if type(hash) is bytes else data(hash), size)
        if original is not None:
            words += (b"ORIGINAL", original.crawl, original.wacz_index, original.size)
    return Command(words, same, None, seq_at) if len(words) > start else Command([], lambda _: 0)


_index_stats, _crawl_stats = named(IndexStats), named(CrawlStats)


def stats(prefix: bytes, *, samples: Optional[int] = None) -> Command[IndexStats]:
    """Returns the figures of the index (DEDUPE.STATS)."""
    words: List[Word] = ["DEDUPE.STATS", prefix]
    number(words, b"SAMPLES", samples)
    return Command(words, _index_stats, is_job=True)


def crawl_stats(prefix: bytes, crawl: Bytes) -> Command[CrawlStats]:
    """Returns the figures of one crawl (DEDUPE.STATS)."""
    return Command(["DEDUPE.STATS", prefix, data(crawl)], _crawl_stats)


def unclaim(prefix: bytes, hash: Bytes, token: int) -> Command[bool]:
    """Releases a claim; False if there is none (DEDUPE.UNCLAIM)."""
    return Command(["DEDUPE.UNCLAIM", prefix, data(hash), token], bool)


def unpack(prefix: bytes) -> Command[Packed]:
    """Restores the documented keys (DEDUPE.UNPACK)."""
    return Command(["DEDUPE.UNPACK", prefix], _packed, is_job=True)


_url_index = named(UrlIndex)


def urls(prefix: bytes, on: bool) -> Command[UrlIndex]:
    """Switches the index by URL on or off (DEDUPE.URLS)."""
    return Command(["DEDUPE.URLS", prefix, b"ON" if on else b"OFF"], _url_index, is_job=True)


def wacz_close(
    prefix: bytes, crawl: Bytes, index: int, filename: Bytes, hash: Bytes, size: int, *, rename: bool = False
) -> Command[None]:
    """Marks a WACZ file as finished; ``rename`` allows a new file name (DEDUPE.WACZCLOSE)."""
    words: List[Word] = ["DEDUPE.WACZCLOSE", prefix, data(crawl), index, data(filename), data(hash), size]
    return Command([*words, *([b"RENAME"] if rename else [])], nothing)


_wacz = named(Wacz)


def wacz_list(prefix: bytes, crawl: Bytes) -> Command[List[Wacz]]:
    """Lists the WACZ files of a crawl (DEDUPE.WACZLIST)."""
    return Command(["DEDUPE.WACZLIST", prefix, data(crawl)], lambda reply: [_wacz(row) for row in reply])


def wacz_open(prefix: bytes, crawl: Bytes, filename: Bytes) -> Command[int]:
    """Registers a WACZ file, and returns its index in the crawl (DEDUPE.WACZOPEN)."""
    return Command(["DEDUPE.WACZOPEN", prefix, data(crawl), data(filename)], same)
