"""Runs the crawler of docs/guide/crawlee.md."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import redis
from site_server import Site

GUIDE = Path(__file__).parents[3] / "docs/guide/crawlee.md"
PATIENCE = 60
#: By default, Crawlee 1.0 starts no requests while other programs keep the machine busy.
BUSY = {
    "CRAWLEE_MAX_USED_CPU_RATIO": "1",
    "CRAWLEE_MAX_USED_MEMORY_RATIO": "1",
    "CRAWLEE_MAX_EVENT_LOOP_DELAY_MILLIS": "60000",
}


class GuideTest(unittest.TestCase):
    def test_two_crawlers_of_the_guide_share_a_site(self) -> None:
        with redis.Redis(port=int(os.environ["PORT"])) as server:
            server.flushall()
        site = Site(1, 4)
        self.addCleanup(site.close)
        program = GUIDE.read_text().split("```python\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            crawlers = []
            for name in ("one", "two"):
                environment = {**os.environ, **BUSY, "CRAWLEE_STORAGE_DIR": str(Path(folder) / name)}
                words = [sys.executable, "-c", program, site.url(1, "")]
                crawlers.append(subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL))
                self.addCleanup(crawlers[-1].wait)
                self.addCleanup(crawlers[-1].kill)
            for crawler in crawlers:
                self.assertEqual(crawler.wait(PATIENCE), 0)
            items = [json.loads(path.read_text()) for path in Path(folder).glob("*/datasets/default/0*.json")]
        pages = sorted(site.url(1, path) for path in ("", 0, 1, 2, 3))
        self.assertEqual(sorted(item["url"] for item in items), pages)
        requests = sorted((begun, ended) for _, _, begun, ended in site.requests)
        pauses = [begun - ended for (_, ended), (begun, _) in zip(requests, requests[1:])]
        self.assertGreaterEqual(min(pauses), 0.999)


if __name__ == "__main__":
    unittest.main()
