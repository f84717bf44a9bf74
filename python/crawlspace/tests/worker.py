"""A worker of a crawl, as the guides show it. Its pages are a tree of numbers, and its records are lines of a file.

    worker.py URL|PORT FILE PAGES PAYLOADS [cluster] [aio]

With ``cluster``, the first word is the port of a node. With ``aio``, three tasks work at the same time. The worker ends
when it is interrupted.
"""

import asyncio
import hashlib
import sys
from typing import Any, List, Tuple

import redis
import redis.asyncio

import crawlspace
from crawlspace import aio

CRAWL = "crawl-1"
#: Milliseconds for which the lease and the claim of a dead worker last. Workers wait for a claim whose reply was lost,
#: so a claim must last for less than a lease. In the cluster, no worker dies, and both last for much longer than a
#: failover.
LASTING, LASTING_IN_CLUSTER = (8_000, 2_000), (60_000, 30_000)
TASKS = 3


def uri_of(page: int) -> Tuple[str, str]:
    """Returns the host and the URI of a page."""
    host = f"host-{page % 40}.org"
    return host, f"https://{host}/{page}"


def links_of(page: int, pages: int) -> List[Tuple[str, str]]:
    """Returns the links of a page: two new pages, and one that is known."""
    return [uri_of(link) for link in (2 * page + 1, 2 * page + 2, page // 2) if link < pages]


class Log:
    """The file of records, and of what was counted. A line is written at once, so that a killed worker leaves it."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "ab", buffering=0)

    def write(self, *words: str) -> None:
        self.file.write((" ".join(words) + "\n").encode())


def page_of(uri: bytes, payloads: int) -> Tuple[int, str]:
    """Returns the number of a page and the digest of its payload."""
    page = int(uri.rsplit(b"/", 1)[1])
    return page, "sha256:" + hashlib.sha256(b"%d" % (page % payloads)).hexdigest()


def work(server: Any, log: Log, pages: int, payloads: int, lasting: Tuple[int, int]) -> None:
    frontier, index = crawlspace.Frontier(server, "{f}:"), crawlspace.Dedupe(server, "{d}:")
    for lease in frontier.leases(execution=CRAWL, lease=lasting[0], min=1, max=1):
        page, digest = page_of(lease.uri, payloads)
        with index.capture(CRAWL, digest, px=lasting[1]) as capture:
            if capture.original:
                log.write("revisit", str(page))
                capture.revisit(600)
            else:
                log.write("response", str(page))
                capture.add("20260319102015", lease.uri, 5000)
        log.write("counted", str(page))
        frontier.discover(CRAWL, links_of(page, pages))
        lease.done(status=200)


async def work_together(server: Any, log: Log, pages: int, payloads: int, lasting: Tuple[int, int]) -> None:
    frontier, index = aio.Frontier(server, "{f}:"), aio.Dedupe(server, "{d}:")

    async def task() -> None:
        async with frontier.leases(execution=CRAWL, lease=lasting[0], min=1, max=1) as leases:
            async for lease in leases:
                page, digest = page_of(lease.uri, payloads)
                async with index.capture(CRAWL, digest, px=lasting[1]) as capture:
                    if capture.original:
                        log.write("revisit", str(page))
                        await capture.revisit(600)
                    else:
                        log.write("response", str(page))
                        await capture.add("20260319102015", lease.uri, 5000)
                log.write("counted", str(page))
                await frontier.discover(CRAWL, links_of(page, pages))
                lease.done(status=200)

    await asyncio.gather(*(task() for _ in range(TASKS)))


def main(server: Any, path: str, pages: str, payloads: str, *kinds: str) -> None:
    log = Log(path)
    connections = redis.asyncio if "aio" in kinds else redis
    lasting = LASTING
    if "cluster" in kinds:
        server, lasting = connections.RedisCluster("127.0.0.1", int(server)), LASTING_IN_CLUSTER
    try:
        if "aio" in kinds:
            asyncio.run(work_together(server, log, int(pages), int(payloads), lasting))
        else:
            work(server, log, int(pages), int(payloads), lasting)
    except KeyboardInterrupt:
        log.write("interrupted")


if __name__ == "__main__":
    main(*sys.argv[1:])
