"""A frontier, and an iterator over leases for the loop of a worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generator, Callable, List, Optional, Sequence, Tuple, TypedDict, TypeVar

from ..commands import Bytes, Command, Word, chg as commands, data, same
from ..connection import FAILURES, PARTING
from ..errors import Error, NoChg, Stale
from ..replies import Lease, LeasedUri
from .client import LOG, Client, call

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")

#: Milliseconds for which `later` keeps URIs if the loop does not say how long its leases last.
LATER = 600_000

#: Facts that replace the time since the lease was granted, or options of the loop.
_REPLACING = frozenset(("due", "delay", "elapsed", "factor", "min", "max"))


class Facts(TypedDict, total=False):
    """Facts of a fetch, from which the server computes the pause of the group; see CHG.RELEASE.

    Without ``due`` and ``delay``, ``elapsed`` is the time since the lease was granted, unless it is given.
    """

    status: int
    elapsed: int
    retry_after: int
    crawl_delay: int
    factor: float
    min: int
    max: int
    #: Length of the pause from now on.
    delay: int
    #: End of the pause.
    due: int


class HeldLease:
    """A lease in the body of the loop. Call ``done``, ``retry`` or ``later`` to set its outcome.

    ``done`` and ``retry`` send nothing: the loop ends the lease and takes the next one in one round trip. If the body
    calls none of them, or raises, the URIs are put back, and the pause of the group begins.
    """

    __slots__ = (
        "chg", "token", "execution", "_row", "_uris", "_frontier", "_options", "_begun", "_is_freed", "_pause", "_fate",
        "_is_ending",
    )

    def __init__(self, frontier: "Frontier", row: Any, options: "Options") -> None:
        #: The leased group.
        self.chg: bytes = row[0]
        #: Token of the lease.
        self.token: int = row[1]
        #: The execution of the URIs; None if the frontier does not keep them.
        self.execution: Optional[bytes] = row[5]
        self._row = row
        self._uris: List[Any] = row[7] if len(row) > 7 else []
        self._frontier = frontier
        self._options = options
        self._begun = time.monotonic()
        # A lease with GATE, or after `later`, has freed its group; the URIs stay with the token.
        self._is_freed = options.is_gated and bool(self._uris)
        # Words for the pause and for the URIs in the release; empty until the body has ended the lease.
        self._pause: Sequence[Word] = ()
        self._fate: Tuple[Any, ...] = ()
        self._is_ending = False

    @property
    def lease(self) -> Lease:
        """The reply of the server."""
        return commands.lease_of(self._row)

    @property
    def uris(self) -> List[LeasedUri]:
        """The leased URIs, with their keys, payloads and depths. Empty if the frontier does not keep URIs."""
        return self.lease.uris or []

    @property
    def uri(self) -> bytes:
        """The URI to fetch; of several, the first one."""
        uri: Optional[bytes] = self._uris[0][0] if self._uris else self._row[6]
        if uri is None:
            raise ValueError("the frontier does not keep the URIs of this group")
        return uri

    @property
    def key(self) -> Optional[bytes]:
        """Key of the URI; None if it has none."""
        return self._uris[0][1] if self._uris else None

    @property
    def payload(self) -> Optional[bytes]:
        """Payload of the URI; None if it has none."""
        return self._uris[0][2] if self._uris else None

    @property
    def depth(self) -> int:
        """Distance of the URI from a seed; 0 if the lease does not contain it."""
        return self._uris[0][3] if self._uris else 0

    @property
    def attempts(self) -> int:
        """Number of leases of the URI that expired; 0 if the lease does not contain it."""
        return self._uris[0][4] if self._uris else 0

    @property
    def elapsed(self) -> int:
        """Milliseconds since the lease was granted."""
        return round((time.monotonic() - self._begun) * 1000)

    def done(
        self, *, execution: Optional[Bytes] = None, count: Optional[int] = None, **facts: "Unpack[Facts]"
    ) -> None:
        """Marks the URIs as done. If they are only counted, pass their crawl as ``execution``, and their ``count``."""
        whose = self.execution if execution is None else data(execution)
        if whose is None:
            raise ValueError("the frontier does not keep the URIs of this group: name the execution")
        self._fate = (b"DONE", whose) if count is None else (b"DONE", whose, count)
        self._pause = self._paused(facts)

    def retry(self, at: int = 0, *, payload: Optional[Bytes] = None, **facts: "Unpack[Facts]") -> None:
        """Puts the URIs back, to be fetched at this time, with another payload if one is given."""
        if payload is not None and self._is_freed:
            raise ValueError("the payload cannot be replaced after the group was freed")
        self._fate = (b"RETRY", at) if payload is None else (b"RETRY", at, b"PAYLOAD", data(payload))
        self._pause = self._paused(facts)

    def _paused(self, facts: Facts) -> List[Word]:
        """Returns the words of RELEASE for these facts."""
        elapsed = round((time.monotonic() - self._begun) * 1000)
        if _REPLACING.isdisjoint(facts):
            return [b"ELAPSED", elapsed, *self._options.facts, *commands.facts(facts)]
        if "due" in facts:
            return commands.facts({"at": facts["due"]})
        if "delay" in facts:
            return commands.facts({"delay": facts["delay"]})
        return commands.facts({"elapsed": elapsed, **self._options.pause, **facts})

    def later(self, ms: Optional[int] = None, **facts: "Unpack[Facts]") -> None:
        """Frees the group now, and keeps the URIs for this long, to be ended by ``done`` or ``retry``.

        Use it if the links of a page take long to queue. When the time is over, URIs that have not ended return to the
        queue, as after an expired lease. ``ms`` is the lifetime of the leases without an argument.
        """
        if self._is_freed:
            raise ValueError("this lease has freed its group already")
        keep = ms or self._options.next.lease or LATER
        self._frontier._run(
            self._options.last.release(self.chg, self.token, self._paused(facts), (b"LATER", keep))
        )
        self._is_freed = True

    def extend(self, ms: Optional[int] = None) -> int:
        """Makes the lease last for this time from now on, and returns the deadline.

        Without an argument, the time is the lifetime of the leases of the loop.
        """
        return self._frontier.extend(self.chg, self.token, ms or self._options.next.lease or LATER)

    def _release(self, releases: commands.Releases) -> "Command[Any]":
        return releases.release(self.chg, self.token, self._pause or self._paused({}), self._fate)

    def _finish(self) -> Any:
        """Ends the lease, and returns the row of the next one, or None."""
        options = self._options
        try:
            self._is_ending = True
            if not self._is_freed:
                return self._frontier._run(self._release(options.releases))
            self._end_freed(None)
        except (Stale, NoChg) as error:
            LOG.warning("%r: %s", self.chg, error)
        self._is_ending = False
        return self._frontier._take(options)

    def _end_freed(self, patience: Optional[float]) -> None:
        frontier, fate = self._frontier, self._fate
        if fate[:1] == (b"DONE",):
            frontier._run(commands.done(frontier.prefix, self.chg, self.token, fate[1]), patience)
        elif fate:
            # SETTLE takes no token. EXTEND checks the token, and prevents the lease from expiring before SETTLE.
            frontier._run(commands.extend(frontier.prefix, self.chg, self.token, LATER), patience)
            items = [(self.chg, uri.uri if uri.key is None else uri.key, fate[1]) for uri in self.uris]
            frontier._run(commands.settle(frontier.prefix, self.execution or b"", items), patience)

    def _leave(self) -> None:
        """Ends the lease if the loop is left early."""
        frontier = self._frontier
        try:
            if self._is_freed:
                self._fate = self._fate or (b"RETRY", 0)
                self._end_freed(PARTING)
            elif self._is_ending:
                # The reply was lost. The same release, sent again, returns the lease that it granted.
                again = commands.Releases(frontier.prefix, self._options.next._replace(block=None), _next_row)
                row = frontier._run(self._release(again), PARTING)
                if row is not None:
                    frontier._run(commands.release(frontier.prefix, row[0], row[1], delay=0), PARTING)
            else:
                frontier._run(self._release(self._options.last), PARTING)
        except (Stale, NoChg) as error:
            LOG.warning("%r: %s", self.chg, error)
        except (Error, *FAILURES) as error:
            LOG.warning("%r: %s: the lease expires by itself", self.chg, error)


def _next_row(reply: Any) -> Any:
    """Returns the row of the next lease in the reply to a release."""
    return reply[1]


class Options:
    """Options of a loop."""

    def __init__(self, prefix: bytes, next: commands.Next, pause: "dict[str, Any]") -> None:
        self.next = next
        self.pause = pause
        #: Words of the pause. Its integers are encoded only once.
        self.facts = [b"%d" % word if type(word) is int else word for word in commands.facts(pause)]
        self.is_gated = next.gate is not None
        self.releases = commands.Releases(prefix, next, _next_row)
        #: Releases that request no further lease.
        self.last = commands.Releases(prefix, None, same)


class Leases:
    """The leases of a worker, as an iterator and a context manager; see ``Frontier.leases``."""

    def __init__(self, begin: "Callable[[], Generator[HeldLease, None, None]]") -> None:
        self._begin = begin
        self._begun: "Optional[Generator[HeldLease, None, None]]" = None

    def __iter__(self) -> "Generator[HeldLease, None, None]":
        return self._begin() if self._begun is None else self._begun

    def __enter__(self) -> "Self":
        self._begun = self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun is not None:
            self._begun.close()


class Frontier(Client):
    """A frontier under a prefix. Each method is a command; its docstring names the command."""

    def leases(
        self,
        *,
        execution: Optional[Bytes] = None,
        uris: Optional[int] = 1,
        lease: Optional[int] = None,
        gate: Optional[int] = None,
        idle: Optional[int] = None,
        factor: Optional[float] = None,
        min: Optional[int] = None,
        max: Optional[int] = None,
    ) -> Leases:
        """Iterates over leases, for the loop of a worker.

        The loop ends when no group was due for ``idle`` milliseconds; without ``idle``, it never ends. ``lease`` is
        the lifetime of a lease in case the worker dies, ``uris`` the number of URIs of a lease, ``gate`` a pause after
        which a group is due again while its URIs are still being processed, and ``execution`` the only crawl to fetch.
        They need a packed frontier; ``uris=None`` also works with a plain one. ``factor``, ``min`` and ``max`` are
        facts of every fetch.

        If the loop ends by ``break`` or an exception, its lease is given back at once. With asyncio, put the loop into
        ``with``, so that this happens before the next statement.
        """
        block = None if idle == 0 else idle or 0
        pause = {name: value for name, value in (("factor", factor), ("min", min), ("max", max)) if value is not None}
        options = Options(self.prefix, commands.Next(lease, block, uris, gate, execution), pause)
        return Leases(lambda: self._loop(options))

    def _take(self, options: Options) -> Any:
        """Returns the row of a lease, or None."""
        command: Command[Any] = commands.next(self.prefix, **options.next._asdict())
        command.parse = same
        rows = self._run(command)
        return rows and rows[0]

    def _loop(self, options: Options) -> "Generator[HeldLease, None, None]":
        held: Optional[HeldLease] = None
        try:
            row = self._take(options)
            while row is not None:
                held = HeldLease(self, row, options)
                yield held
                row = held._finish()
                held = None
        except FAILURES:
            held = None
            raise
        except Error:
            if held is not None:
                held._fate, held._is_ending = (), False
            raise
        finally:
            if held is not None:
                held._leave()

    add = call(commands.add)
    add_uri = call(commands.add_uri)
    block = call(commands.block)
    check = call(commands.check)
    count = call(commands.count)
    discover = call(commands.discover)
    done = call(commands.done)
    drop = call(commands.drop)
    expired = call(commands.expired)
    extend = call(commands.extend)
    forget = call(commands.forget)
    group = call(commands.group)
    info = call(commands.info)
    execution_info = call(commands.execution_info)
    known = call(commands.known)
    limit = call(commands.limit)
    list = call(commands.list_groups)
    move = call(commands.move)
    next = call(commands.next)
    pack = call(commands.pack)
    pause = call(commands.pause)
    release = call(commands.release)
    repair = call(commands.repair)
    resume = call(commands.resume)
    settle = call(commands.settle)
    space = call(commands.space)
    sweep = call(commands.sweep)
    unpack = call(commands.unpack)
    uris = call(commands.uris)
    urls = call(commands.urls)
    why = call(commands.why)
