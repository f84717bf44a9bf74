"""A local site of several hosts."""

import http.server
import threading
import time
from typing import Any, List, Tuple

#: Seconds that it takes to serve a page.
PAGE = 0.02


class Site:
    """Hosts at 127.0.0.1, 127.0.0.2, …, whose pages link to each other. One host may refuse its first request."""

    def __init__(self, hosts: int, pages: int, refusing: int = 0) -> None:
        self.hosts, self.pages = hosts, pages
        #: Host, path, and times of the start and the end of each request.
        self.requests: List[Tuple[int, str, float, float]] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                begun = time.monotonic()
                host = int(self.headers["Host"].split(":")[0].split(".")[-1])
                is_refused = host == refusing and not any(row[0] == host for row in site.requests)
                body = "" if is_refused else site.body(host, int(self.path[1:] or 0))
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

    def url(self, host: int, number: "int | str") -> str:
        return f"http://127.0.0.{host}:{self._server.server_address[1]}/{number}"

    def body(self, host: int, number: int) -> str:
        links = [self.url(host, link) for link in (2 * number + 1, 2 * number + 2) if link < self.pages]
        if number == 0:
            links += [self.url(link, 0) for link in (2 * host, 2 * host + 1, 1) if link <= self.hosts]
        return "".join(f'<a href="{link}">x</a>' for link in links)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
