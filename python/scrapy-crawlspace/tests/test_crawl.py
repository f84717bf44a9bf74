"""Crawls of a local site by real Scrapy processes, judged by the log of the site."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

from crawlspace.replies import Counts

from fleet import Crawler, Server, until
from local_site import Answer, Site, Verdict, address, judge

#: Hosts, pages, processes, kills, and seconds of pauses and leases of the large crawl.
FULL = os.environ.get("CRAWLSPACE_PEERS") == "full"
HOSTS, PAGES, PROCESSES, KILLS, PAUSE, LEASE = (300, 6_000, 16, 5, 0.5, 30) if FULL else (24, 144, 4, 1, 0.3, 8)
#: Requests in flight in one process.
IN_FLIGHT = 16
PREFIX = "{t}:"


class Tree:
    """A site of pages that link to one another over all hosts. A quarter of the hosts refuses one visit."""

    def __init__(self, hosts: int, pages: int, seconds: float = 0.01) -> None:
        self.hosts, self.pages, self.seconds = hosts, pages, seconds
        self._refused: Set[str] = set()

    def __call__(self, site: Site, host: str, path: str) -> Answer:
        if path == "/robots.txt":
            return 404, {}, b"", 0
        page = int(path[1:])
        if page >= self.hosts and page % self.hosts % 4 == 1 and host not in self._refused:
            self._refused.add(host)
            return 429, {"Retry-After": "2"}, b"", 0
        links = [number for number in (2 * page + 1, 2 * page + 2, page // 2, page // 3) if number < self.pages]
        text = "".join(f'<a href="{self.url(site, number)}">.</a>' for number in links)
        return 200, {}, f"<html>{text}</html>".encode(), self.seconds

    def url(self, site: Site, page: int) -> str:
        return site.url(page % self.hosts, f"/{page}")


class Crawls(unittest.TestCase):
    """The tests may run at the same time, so each of them has its own server."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.close()

    def setUp(self) -> None:
        self.prefix = "{" + self._testMethodName + "}:"

    def site(self, answer: Any) -> Site:
        site = Site(answer)
        self.addCleanup(site.close)
        return site

    def crawler(self, spider: str = "links", arguments: Any = None, **settings: Any) -> Crawler:
        return Crawler(self.server.port, spider, {"CRAWLSPACE_PREFIX": self.prefix, **settings}, arguments)

    def check(self, execution: str, done: int) -> None:
        """Checks that the frontier has nothing left."""
        frontier = self.server.frontier(self.prefix)
        self.assertEqual(frontier.count(execution), Counts(0, 0, done, 0, done))
        info = frontier.info()
        self.assertEqual((info.uris, info.executions, info.groups_busy), (0, 0, 0))
        self.assertGreaterEqual(info.smallest_margin_ms or 0, 0)

    def test_killed_processes_lose_nothing_and_break_no_pause(self) -> None:
        tree = Tree(HOSTS, PAGES)
        site = self.site(tree)
        arguments = {"starts": [tree.url(site, page) for page in range(4)]}
        options = {"DOWNLOAD_DELAY": PAUSE, "CRAWLSPACE_LEASE": LEASE}
        crawlers = [self.crawler(arguments=arguments, **options) for _ in range(PROCESSES)]
        in_flight = KILLS * IN_FLIGHT
        self.kill(site, crawlers)
        ends = [crawler.end(600) for crawler in crawlers]
        verdict = judge(site.log, PAUSE)
        if FULL:
            self.report("scrapy-crawlspace", verdict)
        self.assertEqual(verdict.pages, PAGES)
        self.assertEqual((verdict.short_pauses, verdict.overlaps, verdict.inside_retry_after), (0, 0, 0), verdict)
        self.assertLessEqual(verdict.twice, in_flight)
        self.assertEqual({end["finish_reason"] for end in ends}, {"finished"})
        counts = self.server.frontier(self.prefix).count("links")
        self.check("links", counts.done)
        if FULL:
            self.fetch_with_scrapy_redis()

    def kill(self, site: Site, crawlers: List[Crawler]) -> None:
        """Kills processes while they fetch."""
        for kill in range(1, KILLS + 1):
            until("pages are fetched", lambda: len(site.log) >= PAGES * kill / (KILLS + 2), 600)
            crawlers.pop().kill9()

    def fetch_with_scrapy_redis(self) -> None:
        """Reports the same crawl with scrapy-redis, which gives no guarantees."""
        tree = Tree(HOSTS, PAGES)
        site = self.site(tree)
        self.server.client.rpush("shared-links:start_urls", *[tree.url(site, page) for page in range(4)])
        options = {"DOWNLOAD_DELAY": PAUSE, "DOWNLOAD_DELAY_JITTER": 0, "RANDOMIZE_DOWNLOAD_DELAY": False}
        crawlers = [Crawler(self.server.port, "shared-links", options, theirs=True) for _ in range(PROCESSES)]
        self.kill(site, crawlers)
        for crawler in crawlers:
            crawler.end(600)
        self.report("scrapy-redis", judge(site.log, PAUSE))

    def report(self, name: str, verdict: Verdict) -> None:
        """Prints a result on the terminal, past the test runner."""
        with open(os.environ.get("REPORT", "/dev/stderr"), "a") as file:
            file.write(f"{name}: {PROCESSES} processes, {KILLS} killed, {PAGES} pages: {verdict}\n")

    def test_two_spiders_share_hosts_and_no_requests(self) -> None:
        tree = Tree(6, 24)
        site = self.site(tree)
        arguments = {"starts": [tree.url(site, 0)]}
        both = [
            self.crawler(arguments=arguments, DOWNLOAD_DELAY=0.2, CRAWLSPACE_EXECUTION=name) for name in ("a", "b")
        ]
        for crawler in both:
            crawler.end()
        verdict = judge(site.log, 0.2)
        self.assertEqual((verdict.short_pauses, verdict.overlaps, verdict.inside_retry_after), (0, 0, 0), verdict)
        self.assertEqual((verdict.pages, verdict.twice), (24, 24))
        for name in ("a", "b"):
            self.assertGreaterEqual(self.server.frontier(self.prefix).count(name).done, 24)

    def test_an_interrupt_gives_leases_back_and_the_next_run_continues(self) -> None:
        tree = Tree(20, 200)
        site = self.site(tree)
        arguments = {"starts": [tree.url(site, page) for page in range(20)]}
        crawler = self.crawler(arguments=arguments, DOWNLOAD_DELAY=0.1)
        until("pages are fetched", lambda: len(site.log) > 30)
        frontier = self.server.frontier(self.prefix)
        crawler.interrupt()
        interrupted = time.monotonic()
        until("no page is leased", lambda: frontier.count("links").leased == 0, 10)
        took = time.monotonic() - interrupted
        end = crawler.end()
        self.assertEqual(end["finish_reason"], "shutdown")
        self.assertLess(took, 1 if FULL else 5)  # Other tests run at the same time.
        self.assertEqual(frontier.count("links").leased, 0)
        self.assertGreater(frontier.count("links").queued, 0)
        self.assertEqual(self.crawler(arguments=arguments, DOWNLOAD_DELAY=0.1).end()["finish_reason"], "finished")
        verdict = judge(site.log, 0.1)
        self.assertEqual((verdict.pages, verdict.twice), (200, 0))
        self.assertEqual((verdict.short_pauses, verdict.overlaps, verdict.inside_retry_after), (0, 0, 0), verdict)
        # A run after the end of the crawl fetches nothing.
        before = len(site.log)
        self.assertEqual(self.crawler(arguments=arguments).end()["finish_reason"], "finished")
        self.assertEqual(len(site.log), before)

    def test_spiders_of_all_kinds_are_polite_and_end(self) -> None:
        pages: Dict[str, Tuple[int, Dict[str, str]]] = {
            "/redirect": (302, {"Location": "/redirected"}),
            "/refused": (404, {}),
        }

        def answer(site: Site, host: str, path: str) -> Answer:
            if path == "/robots.txt":
                return 200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /forbidden\n", 0.05
            status, more = pages.get(path, (200, {}))
            return status, more, b"<html></html>", 0.02

        site = self.site(answer)
        with tempfile.TemporaryDirectory() as files:
            arguments = {"starts": [site.url(1)], "elsewhere": site.url(2, "/file-3")}
            end = self.crawler(
                "odd",
                arguments,
                DOWNLOAD_DELAY=0.1,
                ROBOTSTXT_OBEY=True,
                FILES_STORE=files,
                ITEM_PIPELINES={"scrapy.pipelines.files.FilesPipeline": 1},
            ).end()
        verdict = judge(site.log, 0.1)
        self.assertEqual((verdict.short_pauses, verdict.overlaps), (0, 0), verdict)
        seen = [visit.path for visit in site.log]
        expected = ["/", "/robots.txt", "/robots.txt", "/error", "/error-late", "/before-the-error", "/redirect"]
        expected += ["/redirected", "/refused", "/post", "/media", "/file-1", "/file-2", "/file-3", "/once"]
        self.assertEqual(sorted(seen), sorted(expected + 4 * ["/again"]), end["errors"])
        self.assertEqual(end["finish_reason"], "finished")
        self.assertEqual((end["seen/again"], end["seen/post"], end["seen/errback"]), (4, 1, 1))
        self.assertEqual((end["seenonce"], end["seenbefore-the-error"]), (1, 1))
        self.assertEqual(end["scheduler/unserializable"], 1)
        self.assertIn("/lambda", end["errors"])
        self.check("odd", end["scheduler/enqueued"])

    def test_a_long_page_keeps_its_lease_and_frees_its_host(self) -> None:
        def answer(site: Site, host: str, path: str) -> Answer:
            return 200, {}, b"<html><a href='/b'>.</a></html>", 2.5 if path == "/" else 0

        site = self.site(answer)
        end = self.crawler(arguments={"starts": [site.url(1)]}, CRAWLSPACE_LEASE=1).end()
        self.assertEqual(sorted(visit.path for visit in site.log), ["/", "/b"])
        self.assertNotIn("expired", end["errors"])

    def test_a_crawl_survives_restarts_of_its_server(self) -> None:
        tree = Tree(12, 120)
        site = self.site(tree)
        crawlers = [
            self.crawler(arguments={"starts": [tree.url(site, 0)]}, DOWNLOAD_DELAY=0.1) for _ in range(2)
        ]
        for visits in (20, 60):
            until("pages are fetched", lambda: len(site.log) >= visits)
            self.server.kill9()
            self.server.start()
        for crawler in crawlers:
            self.assertEqual(crawler.end()["finish_reason"], "finished")
        verdict = judge(site.log, 0.1)
        self.assertEqual((verdict.pages, verdict.twice), (120, 0), verdict)
        self.assertEqual((verdict.short_pauses, verdict.overlaps, verdict.inside_retry_after), (0, 0, 0), verdict)
        self.check("links", verdict.visits)

    def test_a_process_waits_for_the_first_page_of_another_one(self) -> None:
        tree = Tree(4, 12)
        site = self.site(tree)
        waiting = self.crawler(DOWNLOAD_DELAY=0.05, CRAWLSPACE_PATIENCE=60)
        # The spider is open once it requests leases.
        until("it waits", lambda: self.server.client.exists(f"{self.prefix}chg_packed"))
        self.crawler(arguments={"starts": [tree.url(site, 0)]}, DOWNLOAD_DELAY=0.05).end()
        self.assertEqual(waiting.end()["finish_reason"], "finished")
        self.assertEqual(judge(site.log, 0.05).pages, 12)

    def test_mistakes_stop_the_crawl_with_a_sentence(self) -> None:
        self.server.client.execute_command("CHG.ADDURI", self.prefix, "x", "h", 0, 0, "http://h/")
        for settings, sentence in (
            ({}, "needs a packed frontier; run CHG.PACK"),
            ({"DOWNLOADER_MIDDLEWARES": {}}, "'scrapy_crawlspace.Politeness': 950"),
            ({"CRAWLSPACE_SERIALIZER": "yaml"}, "use 'json' or 'pickle'"),
        ):
            self.assertIn(sentence, self.crawler(**settings).fail())
        self.assertEqual(self.server.frontier(self.prefix).info().storage, "plain")

    def test_the_spider_of_the_guide_runs_in_two_processes(self) -> None:
        guide = (Path(__file__).parents[3] / "docs/guide/scrapy.md").read_text()
        tree = Tree(3, 9)
        site = self.site(tree)
        with tempfile.TemporaryDirectory() as folder:
            spider = Path(folder) / "pages.py"
            spider.write_text(guide.split("```python\n")[1].split("```")[0])
            words = [sys.executable, "-m", "scrapy", "runspider", str(spider), "-a", f"start={tree.url(site, 0)}"]
            words += ["-s", f"CRAWLSPACE_URL=redis://127.0.0.1:{self.server.port}/0", "-s", "TELNETCONSOLE_ENABLED=0"]
            both = [subprocess.Popen(words, stderr=subprocess.PIPE, text=True) for _ in range(2)]
            for process in both:
                _, errors = process.communicate(timeout=120)
                self.assertIn("finish_reason': 'finished'", errors)
        verdict = judge(site.log, 1)
        self.assertEqual((verdict.pages, verdict.twice, verdict.short_pauses, verdict.overlaps), (9, 0, 0, 0))

    def test_a_page_returns_to_the_frontier_if_robots_txt_asks_for_a_long_pause(self) -> None:
        def answer(site: Site, host: str, path: str) -> Answer:
            if path == "/robots.txt" and host == address(1):
                return 429, {"Retry-After": "3600"}, b"", 0
            return 200, {}, b"", 0

        site = self.site(answer)
        arguments = {"starts": [site.url(1), site.url(2)]}
        crawler = self.crawler(arguments=arguments, DOWNLOAD_DELAY=0.1, ROBOTSTXT_OBEY=True)
        frontier = self.server.frontier(self.prefix)
        frontier.pack()
        until("the other page is fetched", lambda: frontier.count("links") == Counts(1, 0, 2, 0, 3))
        self.assertGreater(frontier.why(f"{address(1)}:{site.port}").in_ms or 0, 3_500_000)
        crawler.interrupt()
        crawler.end()
        paths = [(visit.host, visit.path) for visit in site.log]
        self.assertEqual(sorted(paths), [(address(1), "/robots.txt"), (address(2), "/"), (address(2), "/robots.txt")])

    def test_slots_have_pauses_and_parallel_fetches_of_their_own(self) -> None:
        site = self.site(lambda site, host, path: (200, {}, b"", 0.4))
        name, other = f"{address(1)}:{site.port}", f"{address(2)}:{site.port}"
        starts = [site.url(host, f"/{page}") for host in (1, 2) for page in range(4)]
        slots = {name: {"concurrency": 4, "delay": 0}, other: {"delay": 0.3}}
        self.crawler(arguments={"starts": starts}, DOWNLOAD_SLOTS=slots).end()
        logs = [[visit for visit in site.log if visit.host == address(host)] for host in (1, 2)]
        self.assertGreater(judge(logs[0], 0).overlaps, 0)
        self.assertEqual(judge(logs[1], 0.3).short_pauses, 0)


if __name__ == "__main__":
    unittest.main()
