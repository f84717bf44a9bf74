"""Crawls a local site with several processes, one of which is killed."""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, Tuple

import redis
from site_server import Site

PORT = int(os.environ["PORT"])
PREFIX = "{crawl}:"
IS_FULL = os.environ.get("CRAWLSPACE_PEERS") == "full"
PROCESSES, HOSTS, PAGES, KILLS = (8, 100, 20, 4) if IS_FULL else (2, 8, 6, 1)
PAUSE, LEASE = 100, 2_000
#: Maximum number of requests that a crawler has in progress.
CONCURRENCY = 10
#: Seconds for which the test waits for the crawl.
PATIENCE = 600 if IS_FULL else 120


class CrawlTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = redis.Redis(port=PORT)
        self.server.flushall()
        self.site = Site(HOSTS, PAGES, refusing=3)
        self.crawlers: List[subprocess.Popen[bytes]] = []
        self.logs = tempfile.TemporaryDirectory()

    def tearDown(self) -> None:
        for crawler in self.crawlers:
            crawler.kill()
            crawler.wait()
        self.site.close()
        self.server.close()
        self.logs.cleanup()

    def start(self) -> None:
        program = [sys.executable, str(Path(__file__).with_name("crawler.py")), f"redis://127.0.0.1:{PORT}", PREFIX]
        program += [str(PAUSE), str(LEASE), self.site.url(1, 0)]
        with open(Path(self.logs.name) / str(len(self.crawlers)), "wb") as log:
            self.crawlers.append(subprocess.Popen(program, stdout=log, stderr=log))

    def wait(self, what: str, is_met: Any) -> None:
        end = time.monotonic() + PATIENCE
        while not is_met():
            if time.monotonic() > end:
                logs = [path.read_text()[-3000:] for path in sorted(Path(self.logs.name).iterdir())]
                self.fail(f"{what}: {len(self.site.requests)} requests\n" + "\n".join(logs))
            time.sleep(0.01)

    def test_processes_share_a_crawl_and_one_of_them_dies(self) -> None:
        total = HOSTS * PAGES
        for _ in range(PROCESSES):
            self.start()
        killed = []
        for kill in range(KILLS):
            self.wait("kill", lambda: len(self.site.requests) > total * (kill + 1) // (KILLS + 2))
            killed.append(self.crawlers[kill])
            killed[-1].kill()
            self.start()
        alive = [crawler for crawler in self.crawlers if crawler not in killed]
        self.wait("end", lambda: all(crawler.poll() is not None for crawler in alive))
        self.assertEqual([crawler.returncode for crawler in alive], [0] * len(alive))

        hosts: Dict[int, List[Tuple[float, float, str]]] = defaultdict(list)
        for host, path, begun, ended in self.site.requests:
            hosts[host].append((begun, ended, path))
        pages = [(host, path) for host, path, _, _ in self.site.requests if path != "refused"]
        self.assertEqual(len(set(pages)), total)
        twice = len(pages) - total
        self.assertLessEqual(twice, CONCURRENCY * KILLS)
        pauses = []
        for rows in hosts.values():
            rows.sort()
            for (_, ended, path), (begun, _, _) in zip(rows, rows[1:]):
                # After the refused request, the server makes the pause two seconds long.
                required = 2.0 if path == "refused" else PAUSE / 1000
                pauses.append(begun - ended - required)
        self.assertGreaterEqual(min(pauses), -0.001)
        counts = self.server.execute_command("CHG.COUNT", PREFIX, "alias:default")
        figures = counts if isinstance(counts, dict) else dict(zip(counts[::2], counts[1::2]))
        self.assertEqual((figures[b"done"], figures[b"known"]), (total, total))
        print(f"{total} pages, {len(self.crawlers)} processes, {KILLS} killed: {twice} pages twice", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
