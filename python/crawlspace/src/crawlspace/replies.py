"""The values of replies. Ids, keys, URIs and payloads are bytes; times are integers in milliseconds since the epoch."""

from __future__ import annotations

import itertools
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type, TypeVar, Union, cast, get_type_hints

T = TypeVar("T")

#: Converts a row to a named tuple with the same number of elements, several times faster than calling its class.
new: Callable[[Type[T], Any], T] = cast(Any, tuple.__new__)


def rows(kind: Type[T]) -> Callable[[Any], List[Optional[T]]]:
    """Returns a function that converts each row to this NamedTuple, and keeps rows that are None."""
    kinds = itertools.repeat(kind)

    def parse(reply: List[Any]) -> List[Optional[T]]:
        if reply[0] is None and reply.count(None) == len(reply):
            return reply
        try:
            # Faster than `map`, because `zip` reuses its tuple.
            return list(itertools.starmap(new, zip(kinds, reply)))
        except TypeError:
            return [None if row is None else new(kind, row) for row in reply]

    return parse


def pairs(reply: Any) -> List[Tuple[Any, Any]]:
    """Returns the names and values of a map, which is a flat list in RESP2."""
    if isinstance(reply, dict):
        return list(reply.items())
    return list(zip(reply[::2], reply[1::2]))


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


_CONVERTERS: Dict[Any, Callable[[Any], Any]] = {
    str: _text,
    float: float,
    bool: bool,
    Optional[str]: _optional(_text),
    Optional[float]: _optional(float),
    Union[int, str]: _text,
    List[str]: lambda values: [_text(value) for value in values],
}


#: Fields whose names are keywords of Python.
_RENAMED = {"in": "in_ms", "count": "queued"}


def named(kind: Type[T], **converters: Callable[[Any], Any]) -> Callable[[Any], T]:
    """Returns a function that converts a map to this NamedTuple. Unknown fields are ignored, missing ones are None."""
    hints = get_type_hints(kind)
    plan: Dict[bytes, Tuple[str, Optional[Callable[[Any], Any]]]] = {}

    def place(name: bytes) -> Tuple[str, Optional[Callable[[Any], Any]]]:
        field = re.sub("([A-Z])", r"_\1", name.decode()).lower().replace("-", "_")
        field = _RENAMED.get(field, field)
        return field, converters.get(field) or _CONVERTERS.get(hints.get(field))

    def parse(reply: Any) -> T:
        values = dict.fromkeys(hints)
        for name, value in pairs(reply):
            found = plan.get(name)
            if found is None:
                found = plan[name] = place(name)
            field, convert = found
            if field in values:
                values[field] = convert(value) if convert else value
        return kind(**values)

    return parse


# Frontier


class LeasedUri(NamedTuple):
    """A URI of a lease."""

    uri: bytes
    #: Key that identifies it; None if it has none.
    key: Optional[bytes]
    #: Payload of the URI; None if it has none.
    payload: Optional[bytes]
    #: Distance from a seed.
    depth: int
    #: Number of leases of it that expired.
    attempts: int


class Lease(NamedTuple):
    """A leased group."""

    chg: bytes
    #: Integer that RELEASE, EXTEND and DONE require.
    token: int
    deadline: int
    #: Time at which the group became due.
    due: int
    #: Queued URIs, including the leased ones.
    queued: int
    execution: Optional[bytes]
    #: The URI to fetch; None in a full lease, and if the frontier does not keep URIs.
    uri: Optional[bytes]
    #: URIs of a full lease; None in a lease without ``uris``, ``gate`` and ``execution``.
    uris: Optional[List[LeasedUri]] = None


class Released(NamedTuple):
    """A released lease, and the next one."""

    #: Time at which the group becomes due, or the end of its pause.
    due: int
    #: The next lease; None if no group is due or no lease was wanted.
    lease: Optional[Lease]


class Known(NamedTuple):
    """The state of a URL."""

    #: ``queued``, ``leased``, ``done`` or ``given-up``.
    state: str
    #: Time at which it is due; -1 if it is done or given up.
    due: int
    #: Status of the last fetch; -1 if there is none.
    status: int
    #: Number of expired leases; 15 stands for 15 and more.
    attempts: int
    #: Time of the last change of its state, rounded down to ten minutes.
    changed: int


class Counts(NamedTuple):
    """Number of known URLs by state."""

    queued: int
    leased: int
    done: int
    given_up: int
    known: int


class Dropped(NamedTuple):
    """Result of a drop."""

    #: Groups that had URIs of the crawl, or executions that had URIs in the group.
    groups: int
    uris: int


class Moved(NamedTuple):
    """Result of a move."""

    uris: int
    #: URIs that the other group has now.
    queued: int


class Swept(NamedTuple):
    """Number of groups that a sweep moved."""

    waiting: int
    busy: int


class Expired(NamedTuple):
    """Report of an expired lease."""

    chg: bytes
    #: None if the frontier does not keep the URI.
    execution: Optional[bytes]
    uri: Optional[bytes]
    #: Number of expired leases of this URI, or of consecutive expired leases of the group.
    times: int


class Group(NamedTuple):
    """A queued group."""

    chg: bytes
    #: ``waiting``, ``ready`` or ``busy``.
    state: str
    time: int
    queued: int


class QueuedUri(NamedTuple):
    """A queued URI."""

    execution: bytes
    depth: int
    due: int
    attempts: int
    uri: bytes
    #: Key with which it was discovered; None if it has none.
    key: Optional[bytes] = None


class ListedUrl(NamedTuple):
    """A URL of an execution."""

    chg: bytes
    uri: bytes
    #: Key that identifies it; None if it has none.
    key: Optional[bytes]
    #: Distance from a seed; -1 if the URL is done or given up.
    depth: int
    #: ``queued``, ``leased``, ``done`` or ``given-up``.
    state: str
    #: Time at which it is due; -1 if it is done or given up.
    due: int
    #: Status of the last fetch; -1 if there is none.
    status: int
    attempts: int
    #: Time of the last change of its state; -1 if the execution does not remember its URLs.
    changed: int


class GroupsPage(NamedTuple):
    """A page of groups. Continue with its cursor until that is ``b"0"``."""

    cursor: bytes
    items: List[Group]


class UrisPage(NamedTuple):
    """A page of URIs. Continue with its cursor until that is ``b"0"``."""

    cursor: bytes
    items: List[QueuedUri]


class UrlsPage(NamedTuple):
    """A page of the URLs of an execution. Continue with its cursor until that is ``b"0"``."""

    cursor: bytes
    items: List[ListedUrl]


class FrontierInfo(NamedTuple):
    """Figures of a frontier; docs/commands/chg.info.md describes them."""

    groups_waiting: int
    groups_ready: int
    groups_busy: int
    groups_idle: int
    groups_gated: int
    due: int
    oldest_ready_ms: int
    next_due_ms: int
    uris: int
    executions: int
    #: ``all``, or the number of paused executions.
    paused: Union[int, str]
    waiters: int
    leases: int
    releases: int
    expired: int
    expired_reports: int
    reports_dropped: int
    rate_leases: float
    pauses_observed: int
    smallest_pause_ms: Optional[int]
    smallest_pause_asked_ms: Optional[int]
    smallest_margin_ms: Optional[int]
    token: int
    known: int
    known_expected_lost: float
    storage: str


class ExecutionInfo(NamedTuple):
    """Figures of a crawl in a frontier. The last five are None if it does not remember its URLs."""

    uris: int
    paused: bool
    next_due_ms: int
    queued: Optional[int]
    leased: Optional[int]
    done: Optional[int]
    given_up: Optional[int]
    known: Optional[int]


class WhyLease(NamedTuple):
    """A current lease of a group."""

    token: int
    granted: int
    age: int
    deadline: int
    execution: Optional[bytes]
    uri: Optional[bytes]


class WhyExecution(NamedTuple):
    """A crawl with URIs in a group."""

    execution: bytes
    weight: Optional[int]
    uris: int


class DoneLimit(NamedTuple):
    """A limit of done URLs of a crawl in a group."""

    execution: bytes
    limit: int
    #: Number of URLs of the crawl in this group that are done.
    done: int


class Why(NamedTuple):
    """Everything that affects the next lease of a group; docs/commands/chg.why.md describes it."""

    chg: bytes
    state: str
    why: str
    due: int
    in_ms: int
    queued: int
    gate: int
    blocked_until: int
    paused: bool
    leases: List[WhyLease]
    parallel: int
    gap: int
    delay: Optional[int]
    budget: Optional[int]
    group: Optional[bytes]
    group_gate: Optional[int]
    backoff: int
    expired: int
    executions: List[WhyExecution]
    more_executions: bool
    #: None if the group has no limit of done URLs.
    done_limits: Optional[List[DoneLimit]] = None


class FrontierCheck(NamedTuple):
    """Result of CHG.CHECK or CHG.REPAIR."""

    groups: int
    executions: int
    total: int
    sum_groups: int
    sum_executions: int
    consistent: bool
    problems: List[str]
    problems_total: int
    disturbed: bool
    #: Number of repairs; None after CHECK.
    mended: Optional[int]
    #: Number of texts of done URLs that are missing, wrong or needless; None for 0.
    wrong_texts: Optional[int] = None
    #: Number of groups of an execution whose time for ``next`` with ``execution`` is missing or wrong; None for 0.
    wrong_agendas: Optional[int] = None


# Dedupe


class Record(NamedTuple):
    """The original record of a payload."""

    crawl: bytes
    wacz_index: int
    #: Date as it was written.
    date: bytes
    url: bytes
    size: int


class WaczRecord(NamedTuple):
    """The original record of a payload, with the WACZ file that holds it."""

    crawl: bytes
    wacz_index: int
    date: bytes
    url: bytes
    size: int
    #: None if the list of the crawl has no entry at this index.
    filename: Optional[bytes]


class Claim(NamedTuple):
    """Result of a claim."""

    #: ``dupe``, ``claimed`` or ``pending``.
    outcome: str
    #: The record of a ``dupe``.
    original: Optional[Record] = None
    #: The token of a claim.
    token: Optional[int] = None
    #: The crawl that holds a pending claim.
    holder: Optional[bytes] = None
    #: Milliseconds until a pending claim expires.
    left: Optional[int] = None
    #: The WACZ file that holds the record of a ``dupe``, if the call asked for it.
    filename: Optional[bytes] = None
    #: The original of a ``dupe`` as a single value, if the call asked for it.
    text: Optional[bytes] = None


class Capture(NamedTuple):
    """A capture of a URL that the index knows."""

    crawl: bytes
    hash: bytes
    wacz_index: int
    date: bytes
    size: int
    filename: Optional[bytes]


class Committed(NamedTuple):
    """Result of a commit."""

    #: Hashes that were new to the index.
    new: int
    #: Hashes that the index already had.
    known: int


class Removed(NamedTuple):
    """Result of a removal."""

    crawls: int
    #: Hashes dropped from the index.
    dropped: int
    #: Hashes that moved to another owner.
    moved: int


class Wacz(NamedTuple):
    """A WACZ file of a crawl. A file without a size is unfinished."""

    filename: bytes
    hash: Optional[bytes]
    size: Optional[int]


class RequiredWacz(NamedTuple):
    """A WACZ file that a crawl or a WACZ file needs for replay."""

    filename: bytes
    hash: Optional[bytes]
    size: Optional[int]
    crawl_id: bytes


class Dependent(NamedTuple):
    """A crawl that depends on another one."""

    crawl: bytes
    #: Number of revisits; None if only a plain client wrote the dependency.
    revisits: Optional[int]


class Packed(NamedTuple):
    """Result of DEDUPE.PACK or DEDUPE.UNPACK."""

    storage: str
    hashes: int
    records: int
    memory: int


class UrlIndex(NamedTuple):
    """State of the index by URL."""

    #: ``on`` or ``off``.
    urls: str
    crawls: int
    records: int


class CrawlState(NamedTuple):
    """State and counts of a crawl in a list."""

    state: str
    hashes: int
    total_urls: int
    dupe_urls: int
    conserved_size: int
    total_crawl_size: int
    waczs: int
    #: Completed fraction of a running job; None if no job runs.
    progress: Optional[float]


class CrawlStats(NamedTuple):
    """Figures of a crawl; docs/commands/dedupe.stats.md describes them."""

    state: str
    hashes: int
    total_urls: int
    dupe_urls: int
    conserved_size: int
    total_crawl_size: int
    waczs: int
    requires: int
    memory: int


class IndexStats(NamedTuple):
    """Figures of an index; docs/commands/dedupe.stats.md describes them."""

    profile: str
    storage: str
    crawls: int
    uncommitted: int
    hashes: int
    total_urls: int
    dupe_urls: int
    conserved_size: int
    total_crawl_size: int
    removed_crawls: int
    removed_crawl_size: int
    update_progress: Optional[float]
    memory: int


class IndexCheck(NamedTuple):
    """Result of DEDUPE.CHECK or DEDUPE.REPAIR; docs/commands/dedupe.check.md describes the figures."""

    crawls: int
    hashes: int
    dangling_owners: int
    missing_hashes: int
    hidden_owners: int
    bad_records: int
    count_drift: int
    leaked_keys: int
    unlisted_crawls: int
    to_remove_crawls: int
    stale_holders: int
    interrupted: int
    placeholders: int
    ok: bool
    #: None without an index by URL.
    url_drift: Optional[int]
    #: Number of repairs; None after CHECK.
    repaired: Optional[int]


# Tags


class Explanation(NamedTuple):
    """The reason why a capture passes or not."""

    keep: bool
    why: str
    format: str
    record: bytes
    #: Pairs of a tag and its source.
    tags: List[Tuple[bytes, str]]
    clauses: List["Clause"]


class Clause(NamedTuple):
    """A part of a condition."""

    text: bytes
    result: bool
    parts: List["Clause"]


class TagsInfo(NamedTuple):
    """Figures of a tag space; docs/commands/tags.info.md describes them."""

    record_ids: int
    record_edges: int
    file_ids: int
    file_edges: int
    tag_ids: int
    tag_edges: int
    staged_record_ids: int
    staged_file_ids: int
    staged_tag_ids: int
    tags: int
    rules: int
    points: int
    memory: int


class Rule(NamedTuple):
    """A rule of a tag space."""

    name: bytes
    field: bytes
    regex: bytes
    templates: List[bytes]


class Point(NamedTuple):
    """An access point."""

    name: bytes
    expression: bytes


class TagsPage(NamedTuple):
    """A page of tags. Continue with its cursor until that is ``b"0"``."""

    cursor: bytes
    items: List[bytes]


class IdsPage(NamedTuple):
    """A page of ids with their tags. Continue with its cursor until that is ``b"0"``."""

    cursor: bytes
    items: List[Tuple[bytes, List[bytes]]]
