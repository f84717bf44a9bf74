"""The scheduler: Scrapy's interface to a crawl."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Optional

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import deferred_from_coro

from .crawl import Crawl
from .requests import Unstorable

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

LOG = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """A scheduler whose requests are in a frontier that any number of processes share."""

    def __init__(self, crawler: Crawler) -> None:
        if not is_asyncio_available():
            raise NotConfigured("scrapy-crawlspace needs the asyncio reactor: remove TWISTED_REACTOR from the settings")
        self._crawl = Crawl.of(crawler)
        if not self._crawl.is_polite:
            raise NotConfigured("add DOWNLOADER_MIDDLEWARES = {'scrapy_crawlspace.Politeness': 950} to the settings")
        self._stats = crawler.stats

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        """Makes the scheduler of a crawler."""
        return cls(crawler)

    def open(self, spider: Spider) -> "Deferred[None]":
        """Connects to the frontier."""
        return deferred_from_coro(self._crawl.open())

    def close(self, reason: str) -> "Deferred[None]":
        """Gives back the leases of this process."""
        return deferred_from_coro(self._crawl.close())

    def has_pending_requests(self) -> bool:
        """Returns True while any process of the crawl has or may have requests."""
        return self._crawl.has_requests

    def enqueue_request(self, request: Request) -> bool:
        """Queues a request unless the crawl knows it. Returns False only if it cannot be stored."""
        try:
            self._crawl.add(request)
        except Unstorable as error:
            LOG.error("%s cannot be queued: %s", request, error)
            if self._stats is not None:
                self._stats.inc_value("scheduler/unserializable")
            return False
        return True

    def next_request(self) -> Optional[Request]:
        """Returns a request whose host may be contacted now."""
        request = self._crawl.next()
        if request is not None and self._stats is not None:
            self._stats.inc_value("scheduler/dequeued/crawlspace")
            self._stats.inc_value("scheduler/dequeued")
        return request
