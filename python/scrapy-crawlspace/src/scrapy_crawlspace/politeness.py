"""The downloader middleware that reports each fetch to the frontier."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Optional
from weakref import WeakKeyDictionary

from crawlspace import Facts
from scrapy import Request, Spider, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached

from .crawl import Crawl, Held
from .requests import group_of, mark, retry_after

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

#: Maximum pause in seconds for which a page waits after robots.txt; for a longer pause, it returns to the frontier.
LONG = 60


class Politeness:
    """Begins the pause of a host when a fetch has ended. It must be the middleware nearest to the downloader."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawl = Crawl.of(crawler)
        self._crawl.is_polite = True
        self._patience = crawler.settings.getfloat("DOWNLOAD_TIMEOUT") or None
        #: Requests from outside the scheduler, with the lease of a page that they use.
        self._inside: "WeakKeyDictionary[Request, Held]" = WeakKeyDictionary()
        settings = self._crawl.settings
        if settings.delay or settings.delays:
            crawler.signals.connect(self._reached, signals.request_reached_downloader)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Politeness:
        """Creates the middleware of a crawler."""
        return cls(crawler)

    def _reached(self, request: Request) -> None:
        self._crawl.engine.free_slot(request)

    def process_request(self, request: Request, spider: Optional[Spider] = None) -> Any:
        """Records the start of a fetch. A page first waits for the pause after robots.txt."""
        held = self._crawl.held(request)
        if held is None:
            return self._visit(request) if urlparse_cached(request).hostname else None
        if held.pause_at or held.is_visited:
            return self._wait(request, held)
        self._begin(request, held)
        return None

    def _begin(self, request: Request, held: Held) -> None:
        if not self._crawl.is_held(held):
            raise IgnoreRequest(f"the lease expired: another process fetches {request}")
        held.begun = monotonic()

    async def _wait(self, request: Request, held: Held) -> Optional[Request]:
        while held.is_visited or held.pause_at > monotonic():
            if held.pause_at > monotonic() + LONG:
                return request.replace(dont_filter=True)  # It is queued again, and its host is freed.
            await asyncio.sleep(max(0.01, held.pause_at - monotonic()))
        self._begin(request, held)
        return None

    async def _visit(self, request: Request) -> None:
        """Makes a request that did not come from the scheduler wait for its host.

        A request for robots.txt uses the lease of the page that needs it, because the page waits for it.
        """
        group = group_of(request)
        mark(request, group)  # A retry of this request belongs to the same group.
        held = self._crawl.host(group)
        if held is not None:
            if held.pause_at > monotonic() + LONG:
                raise IgnoreRequest(f"{group} must not be contacted for a long time: {request} is not sent")
            held.is_visited = True
            self._inside[request] = held
            await asyncio.sleep(max(0.0, held.pause_at - monotonic()))
            return
        try:
            await asyncio.wait_for(self._crawl.visit(request, group), self._patience)
        except (asyncio.TimeoutError, asyncio.CancelledError) as error:
            raise IgnoreRequest(f"{group} was not due in time for {request}") from error

    def process_response(self, request: Request, response: Response, spider: Optional[Spider] = None) -> Any:
        """Frees the group."""
        facts: Facts = {"status": response.status}
        wait = retry_after(response)
        if wait is not None:
            facts["retry_after"] = wait
        held = self._crawl.held(request)
        if held is None:
            return self._leave(request, facts, response)
        self._free(held, facts)
        return response

    def process_exception(self, request: Request, exception: Exception, spider: Optional[Spider] = None) -> Any:
        """Frees the group."""
        held = self._crawl.held(request)
        if held is None:
            return self._leave(request, {"status": -1}, None)
        self._free(held, {"status": -1})
        return None

    def _free(self, held: Held, facts: Facts) -> None:
        if held.begun is not None:
            elapsed = round((monotonic() - held.begun) * 1000)
            self._crawl.free(held, {"elapsed": elapsed, "factor": 0, "min": self._pause(held), **facts})

    def _pause(self, held: Held) -> int:
        return self._crawl.settings.pause(held.group)

    async def _leave(self, request: Request, facts: Facts, response: Optional[Response]) -> Optional[Response]:
        held = self._inside.pop(request, None)
        if held is not None:
            pause = max(self._pause(held), facts.get("retry_after", 0))
            held.pause_at, held.is_visited = monotonic() + pause / 1000, False
        else:
            pause = self._crawl.settings.pause(group_of(request))
            await self._crawl.leave(request, {"elapsed": 0, "factor": 0, "min": pause, **facts})
        return response
