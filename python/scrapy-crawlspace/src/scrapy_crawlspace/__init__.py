"""Scrapy on a Crawlspace frontier: any number of processes share one crawl and one pause for each host.

``Scheduler`` and ``Politeness`` are names for the settings ``SCHEDULER`` and ``DOWNLOADER_MIDDLEWARES``.
"""

from .politeness import Politeness
from .scheduler import Scheduler

__all__ = ["Politeness", "Scheduler"]
