"""A crawler of the site of the test: follows all links.

    crawler.py URL PREFIX PAUSE LEASE START

PAUSE and LEASE are in milliseconds.
"""

import asyncio
import re
import sys
from datetime import timedelta

from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext
from crawlee.storage_clients import MemoryStorageClient
from crawlee_crawlspace import CrawlspaceStorageClient


async def main(url: str, prefix: str, pause: int, lease: int, start: str) -> None:
    storage = CrawlspaceStorageClient(
        url,
        prefix,
        pause=timedelta(milliseconds=pause),
        lease=timedelta(milliseconds=lease),
        storage_client=MemoryStorageClient(),
    )
    async with storage:
        crawler = HttpCrawler(
            # Crawlee 1.0 starts nothing while other programs keep the machine busy.
            configuration=Configuration(
                max_used_cpu_ratio=1, max_used_memory_ratio=1, max_event_loop_delay=timedelta(minutes=1)
            ),
            storage_client=storage,
            concurrency_settings=ConcurrencySettings(desired_concurrency=5, max_concurrency=10),
        )

        @crawler.router.default_handler
        async def handle(context: HttpCrawlingContext) -> None:
            body = (await context.http_response.read()).decode()
            await context.add_requests(re.findall('href="([^"]+)"', body))

        await crawler.run([start])


asyncio.run(main(*sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
