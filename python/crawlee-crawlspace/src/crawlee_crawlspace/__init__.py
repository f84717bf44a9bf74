"""Storage client of Crawlee whose request queue is a frontier of the Crawlspace module of Redis.

``CrawlspaceStorageClient`` shares a request queue between any number of crawlers, with one pause for each host.
"""

from ._queue import CrawlspaceRequestQueueClient
from ._storage import CrawlspaceStorageClient

__all__ = ["CrawlspaceRequestQueueClient", "CrawlspaceStorageClient"]
