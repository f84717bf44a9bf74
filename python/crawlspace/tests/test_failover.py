"""A crawl of four processes, blocking ones and ones with asyncio, while the masters of a cluster change and die."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from typing import Callable, List

import redis

import crawlspace
from cluster import Cluster, until
from worker import CRAWL, TASKS, uri_of

PAGES = 10_000 if os.environ.get("CRAWLSPACE_PEERS") == "full" else 900
#: Each payload is found under this many URLs.
COPIES = 3
PAYLOADS = PAGES // COPIES
FRONTIER, INDEX = "{f}:", "{d}:"
#: Two of the workers use asyncio, with several tasks each.
WORKERS: List[List[str]] = [["cluster"], ["cluster", "aio"]] * 2


class FailoverTest(unittest.TestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.workers: List["subprocess.Popen[str]"] = []
        client = redis.RedisCluster("127.0.0.1", self.cluster.port)
        self.addCleanup(client.close)
        self.frontier = crawlspace.Frontier(client, FRONTIER)
        self.index = crawlspace.Dedupe(client, INDEX)

    def start_workers(self) -> None:
        program = str(Path(__file__).with_name("worker.py"))
        for number, kinds in enumerate(WORKERS):
            words = [program, str(self.cluster.port), str(self.folder / f"{number}.log"), str(PAGES), str(PAYLOADS), *kinds]
            worker = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True)
            self.addCleanup(self.kill, worker)
            self.workers.append(worker)

    @staticmethod
    def kill(worker: "subprocess.Popen[str]") -> None:
        if worker.stderr and not worker.stderr.closed:
            worker.kill()
            worker.communicate()

    def lines(self) -> "Counter[str]":
        """Counts the lines that the workers wrote, by their first word."""
        texts = [path.read_text() for path in self.folder.glob("*.log")]
        return Counter(line.split(" ")[0] for text in texts for line in text.splitlines())

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits until a condition is true, as long as all workers are alive."""

        def check() -> bool:
            for worker in self.workers:
                if worker.poll() is not None:
                    self.fail(worker.communicate()[1][-4000:])
            return holds()

        until(what, check, 600)

    def test_a_crawl_loses_and_doubles_nothing(self) -> None:
        self.frontier.pack()
        self.start_workers()
        waiting = sum(TASKS if "aio" in kinds else 1 for kinds in WORKERS)
        self.until("all workers wait for a lease", lambda: self.frontier.info().waiters == waiting)
        self.cluster.fail_over(FRONTIER)
        self.until("all workers wait at the new master", lambda: self.frontier.info().waiters == waiting)
        self.frontier.discover(CRAWL, [uri_of(0)])
        for part, change, prefix in (
            (0.2, self.cluster.fail_over, INDEX),
            (0.4, self.cluster.kill_master, INDEX),
            (0.6, self.cluster.kill_master, FRONTIER),
        ):
            self.until(f"{part} of the records are counted", lambda: self.lines()["counted"] >= PAGES * part)
            change(prefix)
        self.until("all pages are done", lambda: self.frontier.count(CRAWL).done == PAGES)
        # An interrupt between a command and its reply could leave an unread reply in a connection of redis-py.
        self.until("all workers wait again", lambda: self.frontier.info().waiters == waiting)
        for worker in self.workers:
            worker.send_signal(signal.SIGINT)
        for worker in self.workers:
            _, errors = worker.communicate(timeout=180)
            self.assertEqual(worker.returncode, 0, f"{worker.args}: {errors[-4000:]}")
        lines = self.lines()
        self.assertEqual(
            (lines["response"], lines["revisit"], lines["counted"], lines["interrupted"]),
            (PAYLOADS, PAGES - PAYLOADS, PAGES, len(WORKERS)),
        )
        self.assertEqual(self.frontier.count(CRAWL), (0, 0, PAGES, 0, PAGES))
        info, check = self.frontier.info(), self.frontier.check()
        self.assertEqual((info.uris, info.groups_busy, check.consistent), (0, 0, True), (info, check))
        self.assertEqual(self.index.commit(CRAWL), (PAYLOADS, 0))
        stats, index_check = self.index.crawl_stats(CRAWL), self.index.check()
        self.assertEqual((stats.hashes, stats.total_urls, stats.dupe_urls), (PAYLOADS, PAGES, PAGES - PAYLOADS))
        self.assertTrue(index_check.ok, index_check)


if __name__ == "__main__":
    unittest.main()
