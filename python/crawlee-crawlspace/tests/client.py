"""A client process of a queue, which takes a request and stops at a step until it is killed.

    client.py URL PREFIX STEP

The steps are `fetched`, `added` (it has queued a link of the page) and `extended` (it has extended its lease).
"""

import asyncio
import sys
from datetime import timedelta

from crawlee import Request
from crawlee.storage_clients import MemoryStorageClient
from crawlee_crawlspace import CrawlspaceStorageClient

LEASE = timedelta(milliseconds=400)


async def main(url: str, prefix: str, step: str) -> None:
    storage = CrawlspaceStorageClient(
        url, prefix, lease=LEASE, pause=timedelta(0), storage_client=MemoryStorageClient()
    )
    queue = await storage.create_rq_client(name="crawl")
    request = await queue.fetch_next_request()
    assert request is not None
    if step == "added":
        await queue.add_batch_of_requests([Request.from_url("https://b.example/link")])
    if step == "extended":
        [held] = queue._leases()
        begun = held.renewed
        while held.renewed == begun:
            await asyncio.sleep(0.01)
    print(request.unique_key, flush=True)
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
