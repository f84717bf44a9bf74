"""The commands of a frontier, ``CHG.*``. All times and durations are in milliseconds."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..replies import (
    Counts,
    DoneLimit,
    Dropped,
    ExecutionInfo,
    Expired,
    FrontierCheck,
    FrontierInfo,
    Group,
    GroupsPage,
    Known,
    Lease,
    LeasedUri,
    ListedUrl,
    Moved,
    QueuedUri,
    Released,
    Swept,
    UrisPage,
    UrlsPage,
    Why,
    WhyExecution,
    WhyLease,
    named,
    new,
)
from . import Bytes, Command, Seq, Wait, Word, data, many, nothing, number, row, same, text, word


class Item(NamedTuple):
    """A URI to queue. A plain tuple is also accepted."""

    chg: Bytes
    uri: Bytes
    #: Earliest time at which it may be fetched; 0 means now.
    at: int = 0
    #: Distance from a seed.
    depth: int = 0
    #: Identifies the request instead of the URI, 1 to 64 bytes; only for ``discover``.
    key: Optional[Bytes] = None
    #: Payload, any bytes, which the lease returns; only for ``discover``.
    payload: Optional[Bytes] = None


class Settlement(NamedTuple):
    """A URL to settle. A plain tuple is also accepted."""

    chg: Bytes
    uri: Bytes
    #: Time at which the URL is due; None if it is done.
    at: Optional[int] = None
    #: New payload of a URL that is due at a time; an empty one removes the payload.
    payload: Optional[Bytes] = None


class Next(NamedTuple):
    """Options of the next lease, as in ``next``."""

    lease: Optional[int] = None
    block: Optional[int] = None
    uris: Optional[int] = None
    gate: Optional[int] = None
    execution: Optional[Bytes] = None

    @functools.lru_cache(maxsize=64)
    def words(self) -> Tuple[Word, ...]:
        """Returns the words of the options. A time to wait is the last word."""
        words: List[Word] = []
        number(words, b"LEASE", self.lease)
        number(words, b"URIS", self.uris)
        number(words, b"GATE", self.gate)
        text(words, b"EXECUTION", self.execution)
        number(words, b"BLOCK", self.block)
        return tuple(words)


def lease_of(row: Any) -> Lease:
    """Returns the lease of this row."""
    return new(Lease, (*row[:7], [new(LeasedUri, uri) for uri in row[7]] if len(row) > 7 else None))


def _is_nil(reply: Any) -> bool:
    return reply is None


_NIL = Wait(_is_nil)


def add(
    prefix: bytes, execution: Bytes, groups: Iterable[Tuple[Bytes, int]], *, seq: Seq = None
) -> Command[List[Optional[int]]]:
    """Counts URIs that the caller keeps, given as pairs of a group and the earliest time of the fetch (CHG.ADD).

    Returns the number of URIs that each group has now, or None if its budget is used up. The client numbers the call,
    so that it counts once even if it is repeated; ``seq`` sets another writer and number.
    """
    words: List[Word] = ["CHG.ADD", prefix, data(execution)]
    if seq:
        words += (b"SEQ", data(seq[0]), seq[1])
    start = len(words)
    for chg, at in groups:
        words += (chg if type(chg) is bytes else data(chg), at)
    if len(words) == start:
        return Command([], lambda _: [])
    return Command(words, same, seq_at=3 if seq is None else 0)


def add_uri(
    prefix: bytes, execution: Bytes, items: Iterable[Sequence[Any]], *, weight: Optional[int] = None
) -> Command[List[Optional[int]]]:
    """Stores and counts URIs, given as ``Item`` (CHG.ADDURI).

    Returns the number of URIs that each group has now, or None if its budget is used up.
    """
    words: List[Word] = ["CHG.ADDURI", prefix, data(execution)]
    number(words, b"WEIGHT", weight)
    start = len(words)
    for item in items:
        chg, uri, at, depth, key, payload = row(Item, item)
        if key is not None or payload is not None:
            raise ValueError("add_uri takes no keys and payloads: use discover")
        words += (data(chg), at, depth, data(uri))
    return Command(words, same) if len(words) > start else Command([], lambda _: [])


def block(prefix: bytes, chg: Bytes, until: int) -> Command[None]:
    """Blocks a group until a given time; 0 ends the block (CHG.BLOCK)."""
    return Command(["CHG.BLOCK", prefix, data(chg), b"UNTIL", until], nothing)


_check = named(FrontierCheck)


def check(prefix: bytes) -> Command[FrontierCheck]:
    """Checks the frontier for lost and double-counted URIs (CHG.CHECK)."""
    return Command(["CHG.CHECK", prefix], _check, is_job=True)


_counts = named(Counts)


def count(prefix: bytes, execution: Bytes, *, group: Optional[Bytes] = None) -> Command[Counts]:
    """Returns how many URLs an execution knows, by state; with ``group``, only those of a group (CHG.COUNT)."""
    words: List[Word] = ["CHG.COUNT", prefix, data(execution)]
    text(words, b"GROUP", group)
    return Command(words, _counts, is_job=group is not None)


_FORMS = {(False, False): b"URI", (True, False): b"KEY", (False, True): b"PAYLOAD", (True, True): b"KEYPAYLOAD"}


def discover(
    prefix: bytes,
    execution: Bytes,
    items: Iterable[Sequence[Any]],
    *,
    fresh: Optional[int] = None,
    weight: Optional[int] = None,
) -> Command[List[Optional[int]]]:
    """Queues the URLs that the crawl does not know yet, given as ``Item`` (CHG.DISCOVER).

    Either all items have a key or none has one; the same applies to payloads. With ``fresh``, URLs
    that were done at least this long ago count as new. Returns, for each item, the number of URIs
    that its group has now, 0 if the URL is known, or None if it was refused. A call that was
    repeated after a broken connection may find its own URLs known.
    """
    rows: List[Any] = [item if len(item) == 6 else row(Item, item) for item in items]
    if not rows:
        return Command([], lambda _: [])
    form = (rows[0][4] is not None, rows[0][5] is not None)
    words: List[Word] = ["CHG.DISCOVER", prefix, data(execution), _FORMS[form]]
    number(words, b"FRESH", fresh)
    number(words, b"WEIGHT", weight)
    words += (b"ITEMS", len(rows))
    for chg, uri, at, depth, key, payload in rows:
        if (key is not None, payload is not None) != form:
            raise ValueError("either all items have a key or none has one, and the same for payloads")
        words += (chg if type(chg) is bytes else data(chg), at, depth, uri if type(uri) is bytes else data(uri))
        if key is not None:
            words.append(data(key))
        if payload is not None:
            words.append(data(payload))
    return Command(words, same)


def done(prefix: bytes, chg: Bytes, token: int, execution: Bytes, uris: Iterable[Bytes] = ()) -> Command[int]:
    """Marks these URIs of a lease as done, or all of them without ``uris`` (CHG.DONE).

    The group of the lease may have been freed. URIs with a key are named by the key. Returns the number of URIs that
    were marked.
    """
    return Command(["CHG.DONE", prefix, data(chg), token, data(execution), *many(uris)], same)


def drop(prefix: bytes, execution: Optional[Bytes] = None, *, group: Optional[Bytes] = None) -> Command[Dropped]:
    """Removes all URIs of a crawl, or with ``group`` those of all crawls from a group (CHG.DROP)."""
    if (execution is None) == (group is None):
        raise ValueError("drop takes either an execution or a group")
    words: List[Word] = ["CHG.DROP", prefix]
    if execution is not None:
        words.append(data(execution))
    text(words, b"GROUP", group)
    return Command(words, lambda reply: Dropped(*reply), is_job=True)


def expired(prefix: bytes, *, count: Optional[int] = None) -> Command[List[Expired]]:
    """Returns reports of expired leases, each once (CHG.EXPIRED). A call that fails is not repeated."""
    words: List[Word] = ["CHG.EXPIRED", prefix]
    number(words, b"COUNT", count)
    return Command(words, lambda reply: [Expired(*row) for row in reply], is_repeatable=False)


def extend(prefix: bytes, chg: Bytes, token: int, ms: int) -> Command[int]:
    """Makes a lease last for this time from now on, and returns the new deadline (CHG.EXTEND)."""
    return Command(["CHG.EXTEND", prefix, data(chg), token, ms], same)


def forget(
    prefix: bytes,
    execution: Bytes,
    uris: Optional[Iterable[Bytes]] = None,
    *,
    group: Optional[Bytes] = None,
    before: Optional[int] = None,
    state: Optional[str] = None,
) -> Command[int]:
    """Forgets these URLs; without ``uris``, all ended ones that match every option (CHG.FORGET).

    ``state`` is ``done`` or ``givenup``. Returns the number of forgotten URLs.
    """
    words: List[Word] = ["CHG.FORGET", prefix, data(execution)]
    if uris is not None:
        names = many(uris)
        if not names:
            return Command([], lambda _: 0)
        words += (b"URIS", len(names), *names)
    text(words, b"GROUP", group)
    number(words, b"BEFORE", before)
    if state is not None:
        words += (b"STATE", word(state, ("done", "givenup")))
    return Command(words, same, is_job=uris is None)


def group(prefix: bytes, group: Bytes, chgs: Iterable[Bytes]) -> Command[None]:
    """Puts groups behind a shared gate; an empty name removes them from their gate (CHG.GROUP)."""
    return Command(["CHG.GROUP", prefix, data(group), *many(chgs)], nothing)


_info = named(FrontierInfo)
_execution_info = named(ExecutionInfo)


def info(prefix: bytes) -> Command[FrontierInfo]:
    """Returns the figures of the frontier (CHG.INFO)."""
    return Command(["CHG.INFO", prefix], _info)


def execution_info(prefix: bytes, execution: Bytes) -> Command[ExecutionInfo]:
    """Returns the figures of one crawl (CHG.INFO … EXECUTION)."""
    return Command(["CHG.INFO", prefix, b"EXECUTION", data(execution)], _execution_info)


def _known(row: Any) -> Optional[Known]:
    return None if row is None else Known(row[0].decode(), *row[1:])


def known(prefix: bytes, execution: Bytes, uris: Iterable[Bytes]) -> Command[List[Optional[Known]]]:
    """Returns the state of each URL, or None if it is unknown (CHG.KNOWN). If a URL has a key, pass the key."""
    names = many(uris)
    if not names:
        return Command([], lambda _: [])
    return Command(["CHG.KNOWN", prefix, data(execution), *names], lambda reply: [_known(row) for row in reply])


def limit(
    prefix: bytes,
    chg: Bytes,
    *,
    parallel: Optional[int] = None,
    gap: Optional[int] = None,
    delay: Optional[int] = None,
    budget: Optional[int] = None,
    done: Optional[int] = None,
    execution: Optional[Bytes] = None,
) -> Command[None]:
    """Sets limits of a group: fetches at a time, time between starts, pause, and further URIs (CHG.LIMIT).

    ``done`` is the number of URLs of ``execution`` after which the group is no longer leased for it. A ``delay`` or
    ``budget`` of -1, or a ``done`` of 0, removes the limit.
    """
    if (done is None) != (execution is None):
        raise ValueError("done and execution must be given together")
    words: List[Word] = ["CHG.LIMIT", prefix, data(chg)]
    number(words, b"PARALLEL", parallel)
    number(words, b"GAP", gap)
    number(words, b"DELAY", delay)
    number(words, b"BUDGET", budget)
    number(words, b"DONE", done)
    text(words, b"EXECUTION", execution)
    return Command(words, nothing, is_job=done is not None)


def _groups(reply: Any) -> GroupsPage:
    return GroupsPage(reply[0], [Group(chg, state.decode(), time, queued) for chg, state, time, queued in reply[1]])


def list_groups(
    prefix: bytes, *, state: Optional[str] = None, cursor: Optional[Bytes] = None, count: Optional[int] = None
) -> Command[GroupsPage]:
    """Returns a page of queued groups; ``state`` is ``waiting``, ``ready``, ``busy`` or ``freed`` (CHG.LIST)."""
    words: List[Word] = ["CHG.LIST", prefix]
    if state is not None:
        words += (b"STATE", word(state, ("waiting", "ready", "busy", "freed")))
    text(words, b"CURSOR", cursor)
    number(words, b"COUNT", count)
    return Command(words, _groups)


def move(prefix: bytes, source: Bytes, target: Bytes) -> Command[Moved]:
    """Moves the queue of one group to another (CHG.MOVE). A call that fails is not repeated."""
    words: List[Word] = ["CHG.MOVE", prefix, data(source), data(target)]
    return Command(words, lambda reply: Moved(*reply), is_repeatable=False, is_job=True)


def _leases(reply: Any) -> List[Lease]:
    return [] if reply is None else [lease_of(row) for row in reply]


def next(
    prefix: bytes,
    *,
    lease: Optional[int] = None,
    count: Optional[int] = None,
    block: Optional[int] = None,
    group: Optional[Bytes] = None,
    uris: Optional[int] = None,
    gate: Optional[int] = None,
    execution: Optional[Bytes] = None,
) -> Command[List[Lease]]:
    """Leases the groups that have been due for longest; an empty list if no group is due (CHG.NEXT).

    ``block`` waits for a group for up to this time, 0 without a limit. The client splits a wait that is longer than
    its timeout. If the connection breaks, a lease whose reply was lost expires at its deadline.
    """
    words: List[Word] = ["CHG.NEXT", prefix]
    number(words, b"COUNT", count)
    text(words, b"GROUP", group)
    words += Next(lease, block, uris, gate, execution).words()
    return Command(words, _leases, None if block is None else _NIL)


def pack(prefix: bytes) -> Command[int]:
    """Moves the frontier into one packed value, and returns the number of moved groups (CHG.PACK)."""
    return Command(["CHG.PACK", prefix], same, is_job=True)


def _held(name: str, prefix: bytes, chg: Optional[Bytes], execution: Optional[Bytes]) -> Command[None]:
    if chg is not None and execution is not None:
        raise ValueError("give either a group or an execution")
    words: List[Word] = [name, prefix]
    if chg is not None:
        words.append(data(chg))
    text(words, b"EXECUTION", execution)
    return Command(words, nothing, is_job=execution is not None)


def pause(prefix: bytes, chg: Optional[Bytes] = None, *, execution: Optional[Bytes] = None) -> Command[None]:
    """Pauses a group, a crawl, or without arguments the whole frontier (CHG.PAUSE)."""
    return _held("CHG.PAUSE", prefix, chg, execution)


def resume(prefix: bytes, chg: Optional[Bytes] = None, *, execution: Optional[Bytes] = None) -> Command[None]:
    """Ends a pause of a group, a crawl, or without arguments of the whole frontier (CHG.RESUME)."""
    return _held("CHG.RESUME", prefix, chg, execution)


def _released(reply: Any) -> Released:
    if isinstance(reply, int):
        return Released(reply, None)
    due, lease = reply
    return Released(due, None if lease is None else lease_of(lease))


def _is_unleased(reply: Any) -> bool:
    return reply[1] is None


#: Words for a pause, and for the facts from which the server computes it, by the names of the arguments of ``release``.
_FACTS = {
    "elapsed": b"ELAPSED",
    "status": b"STATUS",
    "factor": b"FACTOR",
    "min": b"MIN",
    "max": b"MAX",
    "crawl_delay": b"CRAWLDELAY",
    "retry_after": b"RETRYAFTER",
    "delay": b"DELAY",
    "at": b"AT",
}


def facts(given: Mapping[str, Any]) -> List[Word]:
    """Returns the words of RELEASE for a pause or for facts, except those that are None."""
    words: List[Word] = []
    for name, value in given.items():
        option = _FACTS.get(name)
        if option is None:
            raise TypeError(f"a release has no fact {name!r}")
        if value is not None:
            words += (option, b"%.3f" % value if type(value) is float else value)
    return words


class Releases:
    """Makes releases that request the same next lease, such as those of a loop."""

    def __init__(self, prefix: bytes, next: Optional[Next], parse: Callable[[Any], Any]) -> None:
        self._prefix = prefix
        self._parse = parse
        self._words: Tuple[Word, ...] = () if next is None else (b"NEXT", *next.words())
        self._wait: Optional[Wait] = None
        if next is not None and next.block is not None:
            words = next.words()

            def then(reply: Any) -> Command[Any]:
                """Continues the wait: the lease is already released, so this only requests the next lease."""
                return Command(["CHG.NEXT", prefix, *words], lambda more: parse([reply[0], more and more[0]]), _NIL)

            self._wait = Wait(_is_unleased, then)

    def release(self, chg: bytes, token: int, pause: Iterable[Word], fate: Iterable[Word]) -> Command[Any]:
        """Returns a release with the words for its pause and for its URIs."""
        words = ["CHG.RELEASE", self._prefix, chg, token, *pause, *fate, *self._words]
        return Command(words, self._parse, self._wait)


def release(
    prefix: bytes,
    chg: Bytes,
    token: int,
    *,
    at: Optional[int] = None,
    delay: Optional[int] = None,
    elapsed: Optional[int] = None,
    factor: Optional[float] = None,
    min: Optional[int] = None,
    max: Optional[int] = None,
    crawl_delay: Optional[int] = None,
    retry_after: Optional[int] = None,
    status: Optional[int] = None,
    done: Optional[Bytes] = None,
    count: Optional[int] = None,
    retry: Optional[int] = None,
    payload: Optional[Bytes] = None,
    later: Optional[int] = None,
    next: Optional[Next] = None,
) -> Command[Released]:
    """Releases a lease after the fetch, and with ``next`` leases the next group (CHG.RELEASE).

    The pause ends ``at`` a time, lasts for ``delay``, or is computed from ``elapsed`` and the facts after it.
    ``done`` names the execution whose URIs are done (``count`` of them if the frontier does not keep them),
    ``retry`` is the time of the next attempt, with a new ``payload`` if given, and ``later`` leaves the URIs with the
    token for this long. Without any of them, the URIs are put back. The same release may be sent again.
    """
    pause = {
        "elapsed": elapsed,
        "status": status,
        "factor": factor,
        "min": min,
        "max": max,
        "crawl_delay": crawl_delay,
        "retry_after": retry_after,
        "delay": delay,
        "at": at,
    }
    fate: List[Word] = []
    text(fate, b"DONE", done)
    if done is not None and count is not None:
        fate.append(count)
    number(fate, b"RETRY", retry)
    if retry is not None:
        text(fate, b"PAYLOAD", payload)
    number(fate, b"LATER", later)
    return Releases(prefix, next, _released).release(data(chg), token, facts(pause), fate)


def repair(prefix: bytes) -> Command[FrontierCheck]:
    """Repairs the inconsistencies that ``check`` finds (CHG.REPAIR)."""
    return Command(["CHG.REPAIR", prefix], _check, is_job=True)


def settle(
    prefix: bytes, execution: Bytes, items: Iterable[Sequence[Any]], *, status: Optional[int] = None
) -> Command[List[Optional[int]]]:
    """Marks URLs as done, or sets the time of their next fetch, given as ``Settlement`` (CHG.SETTLE).

    Either all items have a payload or none has one. Without payloads, queued and leased URLs keep
    theirs. Returns, for each item, 1 if something changed, 0 if not, and None if the item was
    refused.
    """
    words: List[Word] = ["CHG.SETTLE", prefix, data(execution)]
    number(words, b"STATUS", status)
    rows = [row(Settlement, item) for item in items]
    if not rows:
        return Command([], lambda _: [])
    with_payload = rows[0].payload is not None
    if with_payload:
        words.append(b"PAYLOAD")
    words += (b"ITEMS", len(rows))
    for chg, uri, at, payload in rows:
        if (payload is not None) != with_payload:
            raise ValueError("either all items have a payload or none has one")
        words += (data(chg), data(uri), b"NEVER" if at is None else at)
        if payload is not None:
            words.append(data(payload))
    return Command(words, same)


def space(
    prefix: bytes,
    execution: Bytes,
    *,
    bits: Optional[int] = None,
    keep_text: Optional[bool] = None,
    share: Optional[Bytes] = None,
) -> Command[None]:
    """Makes an execution remember its URLs (CHG.SPACE).

    A fingerprint of a URL has 96 or 128 ``bits``. ``share`` is the name of a space that executions share. With
    ``keep_text``, ``urls`` also lists URLs that are done or given up.
    """
    words: List[Word] = ["CHG.SPACE", prefix, data(execution)]
    number(words, b"BITS", bits)
    if keep_text is not None:
        words += (b"TEXT", b"YES" if keep_text else b"NO")
    text(words, b"SHARE", share)
    return Command(words, nothing)


def sweep(prefix: bytes, *, limit: Optional[int] = None) -> Command[Swept]:
    """Moves due groups to the ready queue; only plain clients need this (CHG.SWEEP)."""
    words: List[Word] = ["CHG.SWEEP", prefix]
    number(words, b"LIMIT", limit)
    return Command(words, lambda reply: Swept(*reply), is_job=True)


def unpack(prefix: bytes) -> Command[int]:
    """Restores the documented keys, and returns the number of moved groups (CHG.UNPACK)."""
    return Command(["CHG.UNPACK", prefix], same, is_job=True)


def _uris(reply: Any) -> UrisPage:
    return UrisPage(reply[0], [QueuedUri(*row) for row in reply[1]])


def uris(
    prefix: bytes, chg: Bytes, *, cursor: Optional[Bytes] = None, count: Optional[int] = None
) -> Command[UrisPage]:
    """Returns a page of the URIs of a group (CHG.URIS)."""
    words: List[Word] = ["CHG.URIS", prefix, data(chg)]
    text(words, b"CURSOR", cursor)
    number(words, b"COUNT", count)
    return Command(words, _uris)


def _urls(reply: Any) -> UrlsPage:
    return UrlsPage(reply[0], [ListedUrl._make([*row[:4], row[4].decode(), *row[5:]]) for row in reply[1]])


def urls(
    prefix: bytes,
    execution: Bytes,
    *,
    state: Optional[str] = None,
    cursor: Optional[Bytes] = None,
    count: Optional[int] = None,
) -> Command[UrlsPage]:
    """Returns a page of the URLs of an execution in all groups (CHG.URIS … EXECUTION).

    Without ``state``, the page has queued and leased URLs; ``state`` may be ``queued``, ``leased``, ``done`` or
    ``givenup``.
    """
    words: List[Word] = ["CHG.URIS", prefix, b"EXECUTION", data(execution)]
    if state is not None:
        words += (b"STATE", word(state, ("queued", "leased", "done", "givenup")))
    text(words, b"CURSOR", b"0" if cursor is None else cursor)
    number(words, b"COUNT", count)
    return Command(words, _urls)


_why_lease, _why_execution, _done_limit = named(WhyLease), named(WhyExecution), named(DoneLimit)
_why = named(
    Why,
    leases=lambda rows: [_why_lease(row) for row in rows],
    executions=lambda rows: [_why_execution(row) for row in rows],
    done_limits=lambda rows: [_done_limit(row) for row in rows],
)


def why(prefix: bytes, chg: Bytes) -> Command[Why]:
    """Explains why a group is not being fetched from (CHG.WHY)."""
    return Command(["CHG.WHY", prefix, data(chg)], _why)
