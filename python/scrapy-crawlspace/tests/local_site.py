"""A local site with many hosts (addresses in 127.0.0.0/8), and checks of the requests in its log."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

#: Tolerance in seconds for clocks and the order of events in one event loop.
SLACK = 0.002


class Visit(NamedTuple):
    host: str
    path: str
    begun: float
    ended: float
    status: int
    retry_after: float


#: Status, headers and body of a page; and the seconds it takes.
Answer = Tuple[int, Dict[str, str], bytes, float]


class Site:
    """Serves pages in a thread, and logs each visit."""

    def __init__(self, answer: "Callable[[Site, str, str], Answer]") -> None:
        self.log: List[Visit] = []
        self.connections: Set[Any] = set()
        self.answer = answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._is_ready = threading.Event()
        self._thread.start()
        self._is_ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        serving = self._loop.create_server(lambda: Connection(self), "0.0.0.0", 0, backlog=1000)
        server = self._loop.run_until_complete(serving)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        self._loop.run_forever()
        server.close()
        for connection in self.connections:
            connection.abort()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def url(self, host: int, path: str = "/") -> str:
        return f"http://{address(host)}:{self.port}{path}"


class Connection(asyncio.Protocol):
    """A connection of a crawler, which sends one request at a time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._site.connections.add(transport)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self._site.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if len(body) < int(headers.get("content-length", 0)):
            return
        self._data = b""
        begun = time.monotonic()
        host, path = headers["host"].split(":")[0], lines[0].split(" ")[1]
        answer = self._site.answer(self._site, host, path)
        if answer[3]:
            self._site._loop.call_later(answer[3], self._reply, host, path, begun, answer)
        else:
            self._reply(host, path, begun, answer)

    def _reply(self, host: str, path: str, begun: float, answer: Answer) -> None:
        status, more, body, _ = answer
        retry_after = float(more.get("Retry-After", 0))
        self._site.log.append(Visit(host, path, begun, time.monotonic(), status, retry_after))
        more = {"Content-Type": "text/html", **more, "Content-Length": str(len(body))}
        fields = "".join(f"{name}: {value}\r\n" for name, value in more.items())
        self._transport.write(f"HTTP/1.1 {status} OK\r\n{fields}\r\n".encode() + body)


def address(host: int) -> str:
    return f"127.1.{host // 200}.{host % 200 + 1}"


class Verdict(NamedTuple):
    """Results computed from the log of a site."""

    visits: int
    pages: int
    short_pauses: int
    overlaps: int
    inside_retry_after: int
    #: Pages that were served more than once with status 200.
    twice: int
    smallest_pause: Optional[float]


def judge(log: List[Visit], pause: float) -> Verdict:
    """Checks pauses host by host."""
    hosts: Dict[str, List[Visit]] = {}
    pages: Dict[Tuple[str, str], int] = {}
    for visit in log:
        hosts.setdefault(visit.host, []).append(visit)
        if visit.status == 200 and visit.path != "/robots.txt":
            pages[visit.host, visit.path] = pages.get((visit.host, visit.path), 0) + 1
    short = overlaps = inside = 0
    smallest: Optional[float] = None
    for visits in hosts.values():
        visits.sort(key=lambda visit: visit.begun)
        for before, after in zip(visits, visits[1:]):
            gap = after.begun - before.ended
            smallest = gap if smallest is None else min(gap, smallest)
            if gap < -SLACK:
                overlaps += 1
            elif gap < pause - SLACK:
                short += 1
            if before.retry_after and gap < before.retry_after - SLACK:
                inside += 1
    twice = sum(count - 1 for count in pages.values())
    return Verdict(len(log), len(pages), short, overlaps, inside, twice, smallest)
