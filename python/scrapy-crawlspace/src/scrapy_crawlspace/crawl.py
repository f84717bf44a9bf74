"""The state of a crawl in one process: leases from the frontier, and messages to it.

Everything runs on the event loop of Scrapy. One task takes leases, on its own connection because it waits in the
server. Another task sends all pending messages: links, and then, when the links are stored, releases and ends of
requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Coroutine, Deque, Dict, List, Optional, Tuple
from weakref import WeakKeyDictionary

from crawlspace import Error, Facts, Item, Known, NoChg, NoPerm, Plain, Stale
from crawlspace.aio import Frontier
from crawlspace.commands import Command, chg
from crawlspace.connection import FAILURES
from crawlspace.replies import Lease
from scrapy import Request

from .engine import Engine
from .requests import Codec, mark
from .settings import Settings
from .visits import Visits

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

LOG = logging.getLogger(__name__)

#: Seconds for which messages are collected before they are sent.
GATHER = 0.005
#: Seconds for which the group of a fetched page waits for the end of the page, so that one command reports both.
HOLD = 0.02
#: Milliseconds for which a process waits for a lease in the server.
BLOCK = 250
#: Seconds after which leases are given back if the engine takes none of them.
WAITING = 0.5
#: Fraction of the lifetime of a lease within which a fetch may begin.
SAFE = 0.9
#: Seconds between two checks of the leases.
TICK = 0.2
#: Seconds after which a call that failed is repeated.
RETRY = 1.0
#: Seconds for which a process that stops tries to send the remaining messages.
PARTING = 10.0
#: Maximum number of links in one command.
LINKS = 1_000
#: Errors after which a retry cannot succeed.
FINAL = (Plain, Known, NoPerm)

_CRAWLS: "WeakKeyDictionary[Crawler, Crawl]" = WeakKeyDictionary()


class Held:
    """A leased request, until it is done or given back."""

    __slots__ = (
        "group", "token", "extended", "is_freed", "release", "hold_until", "last_link", "begun", "pause_at",
        "is_visited", "is_lost",
    )  # fmt: skip

    def __init__(self, lease: Lease, group: str, now: float) -> None:
        self.group = group
        self.token = lease.token
        #: Time at which the lease was requested or extended.
        self.extended = now
        #: True if the request to free the group was sent.
        self.is_freed = False
        #: Facts of the fetch, if the group is to be freed.
        self.release: Optional[Facts] = None
        #: Time until which the release waits for the end of the request.
        self.hold_until = 0.0
        #: Number of the last link of the page.
        self.last_link = 0
        #: Time at which the fetch began.
        self.begun: Optional[float] = None
        #: End of the pause after a fetch of robots.txt within this lease.
        self.pause_at = 0.0
        #: True while robots.txt is being fetched within this lease.
        self.is_visited = False
        #: True if the server has reported that the lease expired.
        self.is_lost = False


class Crawl:
    """The state of a crawl in this process."""

    def __init__(self, crawler: Crawler) -> None:
        self.settings = Settings.read(crawler.settings)
        self.engine = Engine(crawler)
        #: True if the middleware that frees groups is installed.
        self.is_polite = False
        self._crawler = crawler
        self._frontier: Frontier
        self._codec: Codec
        self._execution = b""
        self._opened = monotonic()
        self._ready: Deque[Request] = deque()
        self._ready_since = 0.0
        #: Number of leases taken in advance, so that pages without pauses follow without a delay; 0 for a slow crawl.
        self._ahead = 0 if self.settings.delay or self.settings.delays else self.engine.capacity // 2
        self._announced: Optional[Request] = None
        self._held: Dict[Request, Held] = {}
        self._visits: Visits
        #: Requests from outside the scheduler that have their own leases.
        self._visiting: "WeakKeyDictionary[Request, Held]" = WeakKeyDictionary()
        self._links: Deque[Item] = deque()
        self._sent_links = 0
        self._all_links = 0
        self._releases: List[Held] = []
        self._endings: List[Held] = []
        self._returns: List[Held] = []
        self._wanted = asyncio.Event()
        self._is_over = False
        self._is_closing = False
        self._sending: Optional["asyncio.Task[None]"] = None
        self._tasks: List["asyncio.Task[None]"] = []

    @classmethod
    def of(cls, crawler: Crawler) -> "Crawl":
        """Returns the crawl of a crawler."""
        crawl = _CRAWLS.get(crawler)
        if crawl is None:
            crawl = _CRAWLS[crawler] = cls(crawler)
        return crawl

    # Opening and closing

    async def open(self) -> None:
        """Connects, and makes a packed frontier if there is none."""
        spider, settings = self._crawler.spider, self.settings
        assert spider is not None and self._crawler.request_fingerprinter is not None
        self._codec = Codec(spider, self._crawler.request_fingerprinter.fingerprint, settings.pickled)
        self._execution = (settings.execution or spider.name).encode()
        self._frontier = Frontier(settings.url, settings.prefix)
        self._visits = Visits(self._frontier, self._execution, settings.lease)
        info = await self._frontier.info()
        queued = info.groups_waiting + info.groups_ready + info.groups_busy + info.groups_idle + info.groups_gated
        if info.storage == "plain" and not (queued or info.uris or info.token):
            await self._frontier.pack()
        await self._frontier.count(self._execution)  # fails if the frontier is plain
        for name, number in settings.parallel.items():
            await self._frontier.limit(name, parallel=number)
        self._opened = monotonic()
        self._tasks = [asyncio.ensure_future(self._take()), asyncio.ensure_future(self._watch())]

    async def close(self) -> None:
        """Gives back the leases that were not fetched, and sends the remaining messages."""
        self._is_closing = True
        self._wanted.set()
        if not self._tasks:
            return
        await asyncio.wait(self._tasks, timeout=2 * BLOCK / 1000)
        for task in self._tasks:
            task.cancel()
        self._sweep()
        self._give_back(self._ready)
        for request in list(self._held):
            self._give_back([request])
        try:
            await asyncio.wait_for(self._drain(), PARTING)
            await self._visits.close()
        except asyncio.TimeoutError:
            LOG.warning("the frontier cannot be reached: the leases of this process will expire by themselves")
        await self._frontier.aclose()

    async def _drain(self) -> None:
        while self._send_soon():
            assert self._sending is not None
            await asyncio.shield(self._sending)

    # Requests of the engine

    @property
    def has_requests(self) -> bool:
        """False if the crawl of all processes is over."""
        return not self._is_over

    def add(self, request: Request) -> None:
        """Queues a request. Raises ``Unstorable``."""
        if request is self._announced:
            return
        item = self._codec.item(request)
        self._all_links += 1
        self._is_over = False
        self._links.append(item)
        self._send_soon()

    def next(self) -> Optional[Request]:
        """Returns a leased request."""
        self._sweep()
        request = self._first_ready()
        if not self._wanted.is_set() and self._room() > (request is not None):
            self._wanted.set()
        return request

    def _room(self) -> int:
        """Returns the number of leases to take."""
        room = self.engine.free(self._ahead) - len(self._ready)
        return 0 if self._ready and room <= self._ahead // 2 else room

    def _first_ready(self) -> Optional[Request]:
        while self._ready:
            request = self._ready.popleft()
            self._ready_since = monotonic()
            if self.is_held(self._held[request]):
                return request
            self._returns.append(self._held.pop(request))
            self._send_soon()
        return None

    def is_held(self, held: Held) -> bool:
        """Returns False if the lease has expired or is about to, so that the host must not be contacted."""
        return not held.is_lost and (monotonic() - held.extended) * 1000 < self.settings.lease * SAFE

    def held(self, request: Request) -> Optional[Held]:
        """Returns the lease of a request."""
        return self._held.get(request)

    def host(self, group: str) -> Optional[Held]:
        """Returns a lease of this process whose page is not being fetched yet, for another fetch of the group."""
        for held in self._held.values():
            if held.group == group and held.begun is None and not (held.is_freed or held.is_visited):
                return held
        return None

    async def visit(self, request: Request, group: str) -> None:
        """Waits for a lease for a request that did not come from the scheduler."""
        lease = await self._visits.begin(group)
        held = self._visiting[request] = Held(lease, group, monotonic())
        held.begun = monotonic()

    async def leave(self, request: Request, facts: Facts) -> None:
        """Ends the lease of a request from outside the scheduler."""
        held = self._visiting.pop(request, None)
        if held is not None:
            try:
                await self._frontier.release(held.group, held.token, done=self._visits.execution, **_words(facts))
            except (Error, *FAILURES) as error:
                LOG.warning("%s: %s", held.group, error)

    def free(self, held: Held, facts: Facts) -> None:
        """Frees the group after the fetch: its pause begins."""
        if not held.is_freed:
            held.is_freed = True
            held.release = facts
            held.hold_until = monotonic() + HOLD
            self._releases.append(held)
            self._send_soon()

    # Leases

    async def _take(self) -> None:
        """Takes leases as long as the downloader has room."""
        settings, frontier = self.settings, self._frontier
        while not self._is_closing:
            room = self._room() if self.engine.is_running else 0
            if room <= 0:
                self._wanted.clear()
                try:
                    await asyncio.wait_for(self._wanted.wait(), TICK)
                except asyncio.TimeoutError:
                    pass
                continue
            asked = monotonic()
            try:
                leases = await frontier.next(
                    count=min(room, 1000), block=BLOCK, lease=settings.lease, execution=self._execution
                )
                if leases:
                    self._deliver(leases, asked)
                    if not self.engine.is_running:
                        self._give_back(self._ready)
                elif not self._is_closing:
                    await self._look_whether_over()
            except (Error, *FAILURES) as error:
                await self._complain(error)

    def _deliver(self, leases: List[Lease], now: float) -> None:
        for lease in leases:
            for uri in lease.uris or ():
                group = lease.chg.decode("utf-8", "surrogateescape")
                held = Held(lease, group, now)
                try:
                    request = self._codec.request(uri.uri, uri.payload)
                except Exception as error:
                    LOG.error("%r cannot be fetched: %s", uri.uri, error)
                    self._count("scheduler/unreadable")
                    self.free(held, {"delay": 0})
                    self._endings.append(held)
                    continue
                mark(request, group)
                self._held[request] = held
                self._ready.append(request)
        if self._ready:
            self._ready_since = monotonic()
            self._announce(self._ready[0])

    def _announce(self, request: Request) -> None:
        self._announced = request
        try:
            self.engine.announce(request)
        finally:
            self._announced = None

    async def _look_whether_over(self) -> None:
        if self._is_over or self._held or self._has_messages:
            return
        before = self._all_links
        counts = await self._frontier.count(self._execution)
        is_begun = counts.known or (monotonic() - self._opened) * 1000 > self.settings.patience
        if is_begun and not (counts.queued or counts.leased) and before == self._all_links:
            self._is_over = True
            self._announce(Request("data:,", dont_filter=True))

    def _sweep(self) -> None:
        """Ends the requests that the engine has finished."""
        if len(self._held) == len(self._ready):
            return
        finished = self._held.keys() - self.engine.unfinished()
        if self._ready:
            finished.difference_update(self._ready)
        for request in finished:
            held = self._held.pop(request)
            self.free(held, {"delay": round(max(0.0, held.pause_at - monotonic()) * 1000)})
            held.last_link = self._all_links
            self._endings.append(held)
        if finished:
            self._send_soon()

    def _give_back(self, requests: Any) -> None:
        for request in list(requests):
            held = self._held.pop(request)
            if held.begun is None and not held.is_freed:
                self._returns.append(held)
        self._ready.clear()
        self._send_soon()

    async def _watch(self) -> None:
        """Extends leases at half of their lifetime, and gives back those that the engine does not take."""
        half = self.settings.lease / 2000
        while not self._is_closing:
            await asyncio.sleep(TICK)
            self._sweep()
            now = monotonic()
            if self._ready and (not self.engine.is_running or now - self._ready_since > WAITING):
                self._ahead = 0
                self._give_back(self._ready)
            if not self.engine.is_running:
                self._visits.cancel()
            all_held = [*self._held.values(), *self._visiting.values(), *self._endings]
            late = [held for held in all_held if now - held.extended > half]
            if late:
                try:
                    await self._extend(late)
                except (Error, *FAILURES) as error:
                    await self._complain(error)

    async def _extend(self, late: List[Held]) -> None:
        frontier, now = self._frontier, monotonic()
        extend = [chg.extend(frontier.prefix, held.group, held.token, self.settings.lease) for held in late]
        for held, reply in zip(late, await frontier.send(extend)):
            held.extended = now
            if isinstance(reply, Error):
                LOG.warning("the lease of %s expired: another process may fetch its page, too", held.group)
                held.is_freed = held.is_lost = True

    # Messages

    @property
    def _has_messages(self) -> bool:
        return bool(self._links or self._releases or self._endings or self._returns)

    def _send_soon(self) -> bool:
        """Starts a task that sends all messages. Returns False if there are none."""
        if self._sending is None or self._sending.done():
            if not self._has_messages:
                return False
            self._sending = asyncio.ensure_future(self._send_all())
        return True

    async def _send_all(self) -> None:
        while self._has_messages:
            if not self._is_closing:
                await asyncio.sleep(GATHER)
            try:
                await self._send()
            except (Error, *FAILURES) as error:
                await self._complain(error)

    async def _send(self) -> None:
        # A page is done when its links are stored. The links are sent first, so that one command can free the group
        # and end the page.
        self._sweep()
        failure = await self._send_links() if self._links else None
        await self._send_ends()
        if failure is not None:
            raise failure

    async def _send_links(self) -> Optional[Error]:
        links = [self._links[index] for index in range(min(LINKS, len(self._links)))]
        [reply] = await self._frontier.send([chg.discover(self._frontier.prefix, self._execution, links)])
        if isinstance(reply, Error):
            return reply
        self._confirm(links, reply)
        return None

    async def _send_ends(self) -> None:
        prefix, execution = self._frontier.prefix, self._execution
        batch: List[Tuple[Command[Any], Held]] = []
        ended = [held for held in self._endings if held.last_link <= self._sent_links]
        ends = set(map(id, ended))
        now = inf if self._is_closing else monotonic()
        waiting = [held for held in self._releases if id(held) not in ends and held.hold_until > now]
        releases = [held for held in self._releases if id(held) in ends or held.hold_until <= now]
        returns = self._returns
        for held in releases:
            facts: Any = held.release or {"delay": 0}
            if id(held) in ends:
                ends.discard(id(held))
                release = chg.release(prefix, held.group, held.token, done=execution, **facts)
            else:
                release = chg.release(prefix, held.group, held.token, later=self.settings.lease, **facts)
                held.extended = monotonic()
            batch.append((release, held))
        for held in returns:
            pause = round(max(0.0, held.pause_at - monotonic()) * 1000)
            batch.append((chg.release(prefix, held.group, held.token, delay=pause), held))
        for held in ended:
            if id(held) in ends:
                batch.append((chg.done(prefix, held.group, held.token, execution), held))
        if not batch:
            return
        self._releases, self._returns = waiting, []
        self._endings = [held for held in self._endings if held.last_link > self._sent_links]
        try:
            replies = await self._frontier.send([command for command, _ in batch])
        except BaseException:
            self._releases[:0], self._returns[:0], self._endings[:0] = releases, returns, ended
            raise
        for (_, held), reply in zip(batch, replies):
            if isinstance(reply, (Stale, NoChg)):
                LOG.warning("the lease of %s expired: another process fetches its page again", held.group)
            elif isinstance(reply, Error):
                LOG.error("%s: %s", held.group, reply)

    def _confirm(self, links: List[Item], replies: List[Optional[int]]) -> None:
        for _ in links:
            self._links.popleft()
        self._sent_links += len(links)
        known = replies.count(0)
        if known:
            self._count("dupefilter/filtered", known)
        refused = replies.count(None)
        if refused:
            self._count("scheduler/refused", refused)
        self._count("scheduler/enqueued/crawlspace", len(links) - known - refused)
        self._count("scheduler/enqueued", len(links) - known - refused)

    async def _complain(self, error: Exception) -> None:
        LOG.error("%s", error)
        if isinstance(error, FINAL) and self.engine.is_running and not self._is_closing:
            _later(self.engine.close(str(error)))
        await asyncio.sleep(RETRY)

    def _count(self, name: str, number: int = 1) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(name, number)


def _words(facts: Facts) -> Any:
    return facts


def _later(work: Coroutine[Any, Any, Any]) -> None:
    asyncio.ensure_future(work)
