"""Scrapy with this package and with scrapy-redis, in turn, on a site without pauses.

    python compare.py [PAGES] [PROCESSES] [ROUNDS]

Prints the processor time of the crawlers and of the server for each page, and the pages per second.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any, Dict, List

from fleet import Crawler, Server
from local_site import Answer, Site

HOSTS = 300


def answer(pages: int) -> Any:
    def page(site: Site, host: str, path: str) -> Answer:
        number = int(path[1:])
        links = [other for other in range(4 * number + 1, 4 * number + 5) if other < pages]
        links += [number // 2, number // 3, number // 5, number // 7]
        text = "".join(f'<a href="{site.url(other % HOSTS, f"/{other}")}">.</a>' for other in links)
        return 200, {}, f"<html>{text}</html>".encode(), 0

    return page


def crawl(pages: int, processes: int, theirs: bool) -> Dict[str, float]:
    server, site = Server(aof=False), Site(answer(pages))
    idle = server.client.info("cpu")
    starts = [site.url(0, "/0")]
    more = {"LOG_LEVEL": "WARNING", "RETRY_ENABLED": False}
    if theirs:
        server.client.rpush("shared-links:start_urls", *starts)
        crawlers = [Crawler(server.port, "shared-links", more, theirs=True) for _ in range(processes)]
    else:
        crawlers = [Crawler(server.port, "links", more, {"starts": starts}) for _ in range(processes)]
    ends = [crawler.end() for crawler in crawlers]
    fetched = len({(visit.host, visit.path) for visit in site.log})
    assert fetched == pages, (fetched, pages)
    busy = server.client.info("cpu")
    # Without the first and the last tenth, in which not all processes work.
    times = sorted(visit.ended for visit in site.log)[pages // 10 : -pages // 10]
    site.close()
    server.close()
    served = sum(busy[name] - idle[name] for name in ("used_cpu_user", "used_cpu_sys"))
    return {
        "CPU of crawlers, ms a page": 1000 * sum(end["cpu"] for end in ends) / pages,
        "CPU of the server, us a page": 1e6 * served / pages,
        "pages a second": len(times) / (times[-1] - times[0]),
        "visits": len(site.log),
    }


def main() -> None:
    pages, processes, rounds = [int(word) for word in sys.argv[1:]] + [3_000, 2, 3][len(sys.argv) - 1 :]
    runs: Dict[bool, List[Dict[str, float]]] = {False: [], True: []}
    for number in range(rounds):
        for theirs in (number % 2 == 0, number % 2 == 1):
            runs[theirs].append(crawl(pages, processes, theirs))
            print("scrapy-redis" if theirs else "crawlspace", runs[theirs][-1], flush=True)
    for name in runs[False][0]:
        ours, theirs_too = (statistics.median(run[name] for run in runs[theirs]) for theirs in (False, True))
        print(f"{name}: {ours:.3f}, scrapy-redis {theirs_too:.3f}, ratio {ours / theirs_too:.3f}")


if __name__ == "__main__":
    main()
