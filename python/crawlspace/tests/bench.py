"""Compares the package with the same raw calls of redis-py, side by side on the server at PORT.

Each line shows how the package relates to the raw calls: medians of the ratios of neighbouring rounds. Standard error
has the times of a call. `make bench ONLY=P1` reads the lines.
"""

import os
import statistics
import sys
import time
from typing import Any, Callable, List, Tuple

import redis

import crawlspace

PORT = int(os.environ.get("PORT", 6379))
HASHES = [b"sha256:%064x" % number for number in range(100)]
DATE = b"20260319102015"
CRAWL = b"crawl-1"
ROUNDS = 15


def measure(work: Callable[[], Any]) -> Tuple[float, float]:
    """Returns the seconds and the seconds of CPU that some work takes."""
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun, time.process_time() - cpu


def compare(name: str, calls: int, raw: Callable[[], Any], ours: Callable[[], Any]) -> None:
    """Runs both in turn, and prints the medians."""
    rounds: List[Tuple[Tuple[float, float], Tuple[float, float]]] = []
    for number in range(ROUNDS + 1):
        pair = (raw, ours) if number % 2 else (ours, raw)
        first, second = measure(pair[0]), measure(pair[1])
        if number:
            rounds.append((first, second) if number % 2 else (second, first))
    microseconds = [[statistics.median(one[side][kind] for one in rounds) / calls * 1e6 for kind in (0, 1)] for side in (0, 1)]
    ratio = [statistics.median(one[1][kind] / one[0][kind] for one in rounds) for kind in (0, 1)]
    print(
        f"{name}: raw {microseconds[0][0]:.1f} us, CPU {microseconds[0][1]:.1f} us; "
        f"package {microseconds[1][0]:.1f} us, CPU {microseconds[1][1]:.1f} us",
        file=sys.stderr,
    )
    print(f"{name}; CPU {ratio[1]:.2f}, throughput {1 / ratio[0]:.2f}")


def main() -> None:
    r = redis.Redis(port=PORT)
    r.flushall()
    index, frontier = crawlspace.Dedupe(r, "{d}:"), crawlspace.Frontier(r, "{f}:")
    frontier.pack()
    index.add(CRAWL, [(hash, DATE, b"https://example.com/", 5120) for hash in HASHES])
    index.commit(CRAWL)

    def raw_lookup() -> None:
        for _ in range(300):
            r.execute_command("DEDUPE.LOOKUP", "{d}:", *HASHES)

    def our_lookup() -> None:
        for _ in range(300):
            index.lookup(HASHES)

    compare("LOOKUP of 100 known hashes", 300, raw_lookup, our_lookup)
    fresh = [b"sha1:" + b"%032d" % number for number in range(100)]

    def raw_unknown() -> None:
        for _ in range(300):
            r.execute_command("DEDUPE.LOOKUP", "{d}:", *fresh)

    def our_unknown() -> None:
        for _ in range(300):
            index.lookup(fresh)

    compare("LOOKUP of 100 unknown hashes", 300, raw_unknown, our_unknown)
    records = [(hash, DATE, b"https://example.com/", 5120, 0) for hash in HASHES]
    numbers = iter(range(1, 10**9))

    def raw_add() -> None:
        for _ in range(200):
            words: List[Any] = []
            for hash, date, url, size, wacz_index in records:
                words += (hash, wacz_index, date, url, size)
            r.execute_command("DEDUPE.ADD", "{d}:", CRAWL, "SEQ", "raw", next(numbers), *words)

    def our_add() -> None:
        for _ in range(200):
            index.add(CRAWL, records)

    compare("ADD of 100 records", 200, raw_add, our_add)
    # The loops of docs/guide/frontier.md and docs/guide/dedupe.md.
    options = ("LEASE", 60_000, "BLOCK", 1, "URIS", 1)
    pages = iter(range(10**9))

    def fill() -> None:
        frontier.discover(CRAWL, [(b"%d.org" % page, b"https://%d.org/" % page) for page in (next(pages) for _ in range(500))])

    def raw_leases() -> None:
        fill()
        (lease,) = r.execute_command("CHG.NEXT", "{f}:", *options)
        while lease:
            chg, token, _, _, _, crawl, _, [(uri, key, payload, depth, attempts)] = lease
            started = time.monotonic()
            elapsed = round((time.monotonic() - started) * 1000)
            _, lease = r.execute_command(
                "CHG.RELEASE", "{f}:", chg, token, "ELAPSED", elapsed, "FACTOR", 2, "MIN", 50, "MAX", 30_000, "STATUS", 200,
                "DONE", crawl, "NEXT", *options
            )

    def our_leases() -> None:
        fill()
        for lease in frontier.leases(lease=60_000, idle=1, factor=2, min=50, max=30_000):
            lease.done(status=200)

    compare("lease (RELEASE … NEXT)", 500, raw_leases, our_leases)
    captures = iter(range(10**9))

    def raw_captures() -> None:
        for number in range(250):
            hash = b"sha256:%064x" % (1 << 200 | next(captures))
            for _ in range(2):
                state, *answer = r.execute_command("DEDUPE.CLAIM", "{d}:", CRAWL, hash, "PX", 60_000, "BLOCK", 5_000)
                if state == b"CLAIMED":
                    r.execute_command("DEDUPE.ADD", "{d}:", CRAWL, "TOKEN", answer[0], "SEQ", "raw", next(numbers), hash, 0,
                                      DATE, b"https://example.com/", 5120)
                else:
                    crawl, wacz_index, date, url, size = answer[0]
                    r.execute_command("DEDUPE.REVISIT", "{d}:", CRAWL, "SEQ", "raw", next(numbers), hash, 620,
                                      "ORIGINAL", crawl, wacz_index, size)

    def our_captures() -> None:
        for number in range(250):
            hash = b"sha256:%064x" % (1 << 200 | next(captures))
            for _ in range(2):
                with index.capture(CRAWL, hash, block=5_000) as capture:
                    if capture.original:
                        capture.revisit(620)
                    else:
                        capture.add(DATE, b"https://example.com/", 5120)

    compare("capture (CLAIM, ADD or REVISIT)", 500, raw_captures, our_captures)


if __name__ == "__main__":
    main()
