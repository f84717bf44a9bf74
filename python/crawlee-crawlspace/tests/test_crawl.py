"""Crawls a local site with several processes, one of which is killed."""

import http.server
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, Tuple

import redis

PORT = int(os.environ["PORT"])
PREFIX = "{crawl}:"
IS_FULL = os.environ.get("CRAWLSPACE_PEERS") == "full"
PROCESSES, HOSTS, PAGES, KILLS = (8, 100, 20, 4) if IS_FULL else (2, 8, 6, 1)
PAUSE, LEASE = 100, 2_000
#: Requests that a crawler has in progress at most.
CONCURRENCY = 10
#: Seconds for which a page takes to be served, and for which the test waits for the crawl.
PAGE, PATIENCE = 0.02, 600 if IS_FULL else 120


class Site:
    """Hosts at 127.0.0.1, 127.0.0.2, …, whose pages link to each other. Host 3 refuses its first request."""

    def __init__(self) -> None:
        #: Host, path, and times of the begin and the end of each request.
        self.requests: List[Tuple[int, str, float, float]] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                begun = time.monotonic()
                host = int(self.headers["Host"].split(":")[0].split(".")[-1])
                is_refused = host == 3 and not any(row[0] == host for row in site.requests)
                body = "" if is_refused else site.body(host, int(self.path[1:]))
                time.sleep(PAGE)
                site.requests.append((host, "refused" if is_refused else self.path, begun, time.monotonic()))
                self.send_response(429 if is_refused else 200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Server(("", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def url(self, host: int, number: int) -> str:
        return f"http://127.0.0.{host}:{self._server.server_address[1]}/{number}"

    def body(self, host: int, number: int) -> str:
        links = [self.url(host, link) for link in (2 * number + 1, 2 * number + 2) if link < PAGES]
        if number == 0:
            links += [self.url(link, 0) for link in (2 * host, 2 * host + 1, 1) if link <= HOSTS]
        return "".join(f'<a href="{link}">x</a>' for link in links)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class CrawlTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = redis.Redis(port=PORT)
        self.server.flushall()
        self.site = Site()
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
