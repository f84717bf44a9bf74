"""Access to the parts of Scrapy's engine that this package uses; all of them are public attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Set

from scrapy import Request

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Engine:
    """A view of the engine of a crawler."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        #: Number of requests that the downloader takes.
        self.capacity = crawler.settings.getint("CONCURRENT_REQUESTS") or 100

    @property
    def _engine(self) -> Any:
        return self._crawler.engine

    @property
    def is_running(self) -> bool:
        """False after an interrupt."""
        return bool(self._engine.running)

    def free(self, ahead: int) -> int:
        """Returns how many requests the downloader takes now or, if it is full, after ``ahead`` others have ended."""
        active = len(self._engine.downloader.active)
        # `needs_backout` also returns True if the engine is closing, or if responses wait for their callbacks.
        is_closed = self._engine.paused or (self._engine.needs_backout() and active < self.capacity)
        return 0 if is_closed else self.capacity + ahead - active

    def unfinished(self) -> Set[Request]:
        """Returns the requests that are downloaded, or whose callbacks and items are processed."""
        slot = self._engine.scraper.slot
        waiting: Set[Request] = self._engine.downloader.active
        return waiting if slot is None else waiting | slot.active | {request for _, request, _ in slot.queue}

    def announce(self, request: Request) -> None:
        """Makes the engine ask the scheduler for requests, by giving it one."""
        if self._engine.running and self._engine.spider is not None:
            self._engine.crawl(request)

    def free_slot(self, request: Request) -> None:
        """Removes the delay of the slot of a request, because the frontier enforces the pauses."""
        slot = self._engine.downloader.slots.get(request.meta["download_slot"])
        if slot is not None:
            slot.delay = 0

    def close(self, reason: str) -> Any:
        """Returns a coroutine that closes the spider."""
        return self._engine.close_spider_async(reason=reason)
