"""Spiders of the tests. `python spiders.py NAME JSON` runs one of them with these settings and arguments."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import scrapy
from scrapy import signals
from scrapy.crawler import CrawlerProcess


class Links(scrapy.Spider):
    """Follows all links of a site."""

    name = "links"

    def __init__(self, starts: Any = (), **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = list(starts)

    def parse(self, response: Any) -> Any:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


try:
    from scrapy_redis.spiders import RedisSpider

    class SharedLinks(RedisSpider):  # type: ignore[misc]
        """Follows all links of a site, with scrapy-redis."""

        name = "shared-links"
        parse = Links.parse

except ImportError:
    pass


class Odd(scrapy.Spider):
    """Uses requests and callbacks in all the ways in which spiders use them."""

    name = "odd"

    def __init__(self, starts: Any = (), **more: Any) -> None:
        super().__init__(**more)
        self.start_urls = list(starts)

    def parse(self, response: Any) -> Any:
        yield response.follow("/error", self.parse_error)
        yield response.follow("/error-late", self.parse_late)
        yield response.follow("/redirect", self.parse_nothing)
        yield response.follow("/refused", self.parse_nothing, errback=self.failed)
        yield response.follow("/forbidden")
        yield response.follow("/post", self.parse_post, method="POST", body=b"\x00\xff", cb_kwargs={"more": (1, b"2")})
        yield response.follow("/media", self.parse_media)
        yield response.follow("/again", self.parse_again, cb_kwargs={"left": 3})
        yield response.follow("/once", self.parse_nothing)
        yield response.follow("/once", self.parse_nothing)
        yield scrapy.Request(response.urljoin("/lambda"), lambda _: None)

    def parse_nothing(self, response: Any) -> Any:
        self.crawler.stats.inc_value(f"seen{response.url.rpartition('/')[2]}")

    def parse_error(self, response: Any) -> Any:
        raise RuntimeError("a spider fails")

    def parse_late(self, response: Any) -> Any:
        yield response.follow("/before-the-error", self.parse_nothing)
        raise RuntimeError("a spider fails")

    def parse_post(self, response: Any, more: Any) -> Any:
        self.crawler.stats.inc_value("seen/post" if more == (1, b"2") else "damaged")

    def parse_media(self, response: Any) -> Any:
        yield {"file_urls": [response.urljoin("/file-1"), response.urljoin("/file-2"), self.elsewhere]}

    def parse_again(self, response: Any, left: int) -> Any:
        self.crawler.stats.inc_value("seen/again")
        if left:
            yield response.follow("/again", self.parse_again, cb_kwargs={"left": left - 1}, dont_filter=True)

    def failed(self, failure: Any) -> Any:
        self.crawler.stats.inc_value("seen/errback")


def settings(**more: Any) -> "dict[str, Any]":
    return {
        "SCHEDULER": "scrapy_crawlspace.Scheduler",
        "DOWNLOADER_MIDDLEWARES": {"scrapy_crawlspace.Politeness": 950},
        "CRAWLSPACE_URL": f"redis://127.0.0.1:{os.environ['PORT']}/0",
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "INFO",
        "RETRY_HTTP_CODES": [429],
        **more,
    }


def theirs(**more: Any) -> "dict[str, Any]":
    given = settings(
        SCHEDULER="scrapy_redis.scheduler.Scheduler",
        DOWNLOADER_MIDDLEWARES={},
        DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
        SCHEDULER_PERSIST=True,
        MAX_IDLE_TIME_BEFORE_CLOSE=8,
        **more,
    )
    return {**given, "REDIS_URL": given["CRAWLSPACE_URL"]}


def cpu() -> float:
    times = os.times()
    return times.user + times.system


def main() -> None:
    spider = next(kind for kind in globals().values() if getattr(kind, "name", None) == sys.argv[1])
    options = json.loads(sys.argv[2])
    given = (theirs if options.get("theirs") else settings)(**options["settings"])
    process = CrawlerProcess(given)
    crawler = process.create_crawler(spider)
    began = []
    crawler.signals.connect(lambda: began.append(cpu()), signals.spider_opened, weak=False)
    process.crawl(crawler, **options.get("arguments", {}))
    process.start()
    stats = crawler.stats.get_stats()
    stats["cpu"] = cpu() - began[0] if began else 0.0
    print(json.dumps(stats, default=str), flush=True)


if __name__ == "__main__":
    main()
