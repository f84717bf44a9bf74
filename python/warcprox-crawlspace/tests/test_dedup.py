"""Tests the plug-in in a chain of steps like warcprox's, with a writer that only records what it would write.

The tests use the server at CRAWLSPACE_URL. Its database must be empty.
"""

import datetime
import hashlib
import os
import queue
import threading
import time
import types
import unittest

import redis
import warcprox
import warcprox.warcproxy

from warcprox_crawlspace import Dedup, processors
from warcprox_crawlspace.index import iso

MOMENT = datetime.datetime(2026, 3, 19, 10, 20, 15, tzinfo=datetime.timezone.utc)
PREFIX = "{__unspecified__}:"
processors.IDLE = 0.05


class Step(warcprox.BaseStandardPostfetchProcessor):
    """A step that stops sooner than the steps of warcprox."""

    def _get_process_put(self):
        recorded_url = self.inq.get(timeout=0.05)
        self._process_url(recorded_url)
        self.outq.put(recorded_url)


class Writer(Step):
    """Writes nothing, and records which kind of record each capture would get."""

    def _process_url(self, recorded_url):
        if recorded_url.do_not_archive or isinstance(recorded_url, warcprox.warcproxy.FailedUrl):
            return
        kind = b"revisit" if recorded_url.dedup_info else b"response"
        recorded_url.warc_records = [types.SimpleNamespace(type=kind, length=600)]


class Hidden(Step):
    """Drops captures before they are archived, like a filter after the plug-in."""

    def _process_url(self, recorded_url):
        recorded_url.do_not_archive |= b"hidden" in recorded_url.url


class Chain:
    """The chain of steps of a process."""

    def __init__(self, crawl="crawl-1", **options):
        os.environ["CRAWLSPACE_CRAWL"] = crawl
        options = warcprox.Options(queue_size=500, **options)
        writer = Writer(options)
        steps = [Hidden(options), writer]
        controller = types.SimpleNamespace(dedup_db=None, warc_writer_processor=writer, _postfetch_chain=steps)
        steps.insert(0, Dedup(options, controller))
        self.inq = queue.Queue()
        self.done = queue.Queue()
        steps[0].inq = self.inq
        for before, after in zip(steps, steps[1:]):
            before.outq = after.inq = queue.Queue(maxsize=options.queue_size)
        steps[-1].outq = self.done
        self.steps = steps
        for step in steps:
            step.daemon = True
            step.start()

    def end(self):
        """Stops the chain as warcprox does, and returns the captures in the order in which they left the chain.

        If a step is stopped before its thread has started, it processes nothing, so wait until it has taken its captures.
        """
        for step in self.steps:
            deadline = time.monotonic() + 30
            while not step.inq.empty() and time.monotonic() < deadline:
                time.sleep(0.01)
            step.stop.set()
            step.join(30)
            assert not step.is_alive(), step
        return [self.done.get_nowait() for _ in range(self.done.qsize())]


def capture(url, payload, media="text/html", **meta):
    recorder = types.SimpleNamespace(payload_size=lambda: len(payload), tempfile=None)
    one = warcprox.warcproxy.RecordedUrl(
        url=url, request_data=b"", response_recorder=recorder, remote_ip=b"127.0.0.1", warcprox_meta=meta,
        content_type=media, timestamp=MOMENT, method="GET", payload_digest=hashlib.sha1(payload))
    one.dedup_info = None
    return one


def run(*captures, **options):
    """Returns the kind of record of each capture, by URL."""
    chain = Chain(**options)
    for one in captures:
        chain.inq.put(one)
    return kinds(chain.end())


def kinds(captures):
    return {one.url.decode(): one.warc_records and one.warc_records[0].type.decode() for one in captures}


class DedupTest(unittest.TestCase):
    def setUp(self):
        self.redis = redis.Redis.from_url(os.environ["CRAWLSPACE_URL"], decode_responses=True)
        self.redis.flushall()
        os.environ.pop("CRAWLSPACE_PREFIX", None)
        os.environ["CRAWLSPACE_CLAIM"] = "20"

    def counts(self, prefix=PREFIX, crawl="crawl-1"):
        counts = self.redis.hgetall(f"{prefix}h:{crawl}:counts")
        return [int(counts.get(name, 0)) for name in ("totalUrls", "dupeUrls")]

    def test_of_equal_payloads_in_a_batch_one_is_stored(self):
        found = run(*[capture(f"http://a.com/{n}", b"payload %d" % (n % 3)) for n in range(30)])
        self.assertEqual(sorted(found.values()).count("response"), 3)
        self.assertEqual(list(found.values()).count("revisit"), 27)
        self.assertEqual(self.counts(), [30, 27])
        self.assertEqual(self.redis.hlen(PREFIX + "claims"), 0)

    def test_a_revisit_says_what_it_refers_to(self):
        chain = Chain()
        for n in range(2):
            chain.inq.put(capture(f"http://a.com/{n}", b"payload"))
        one = next(one for one in chain.end() if one.dedup_info)
        stored = b"http://a.com/0" if one.url == b"http://a.com/1" else b"http://a.com/1"
        self.assertEqual(one.dedup_info, {"url": stored, "date": b"2026-03-19T10:20:15Z"})

    def test_of_equal_payloads_in_several_processes_one_is_stored(self):
        chains = [Chain() for _ in range(4)]
        for n in range(200):
            for number, chain in enumerate(chains):
                chain.inq.put(capture(f"http://a.com/{number}/{n}", b"payload %d" % n))
        found = {}
        for chain in chains:
            found |= kinds(chain.end())
        self.assertEqual(list(found.values()).count("response"), 200)
        self.assertEqual(list(found.values()).count("revisit"), 600)
        self.assertEqual(self.counts(), [800, 600])

    def test_another_crawl_refers_to_what_was_committed(self):
        run(capture("http://a.com/", b"payload"))
        self.assertEqual(run(capture("http://a.com/", b"payload"), crawl="crawl-2"), {"http://a.com/": "response"})
        self.redis.execute_command("DEDUPE.COMMIT", PREFIX, "crawl-1")
        self.assertEqual(run(capture("http://a.com/", b"payload"), crawl="crawl-3"), {"http://a.com/": "revisit"})
        self.assertEqual(self.redis.smembers(PREFIX + "crawl-3:reqCrawls"), {"crawl-1"})

    def test_buckets_are_indexes(self):
        run(capture("http://a.com/", b"payload", **{"dedup-buckets": {"one": "rw"}}))
        for buckets, kind in [({"two": "rw"}, "response"), ({"one": "rw"}, "revisit"),
                              ({"three": "rw", "one": "ro"}, "revisit"), ({"four": "ro"}, "response")]:
            found = run(capture("http://b.com/", b"payload", **{"dedup-buckets": buckets}))
            self.assertEqual(found, {"http://b.com/": kind}, buckets)
        self.assertEqual(self.counts("{one}:"), [2, 1])
        self.assertEqual(self.counts("{two}:"), [1, 0])
        # Neither the released claim nor the read-only bucket changes any count.
        self.assertEqual(self.redis.hlen("{three}:claims"), 0)
        self.assertEqual(self.redis.keys("{four}*"), [])

    def test_several_buckets_are_written(self):
        both = {"dedup-buckets": {"one": "rw", "two": "rw"}}
        found = run(*[capture(f"http://a.com/{n}", b"payload", **both) for n in range(5)])
        self.assertEqual(list(found.values()).count("response"), 1)
        for bucket in both["dedup-buckets"]:
            self.assertEqual(len(self.redis.hgetall(f"{{{bucket}}}:h:crawl-1")), 1, bucket)

    def test_one_index_for_all_buckets(self):
        os.environ["CRAWLSPACE_PREFIX"] = "{all}:"
        captures = [capture(f"http://a.com/{n}", b"payload", **{"dedup-buckets": {str(n): "rw"}}) for n in range(3)]
        self.assertEqual(list(run(*captures).values()).count("revisit"), 2)
        self.assertEqual(self.counts("{all}:"), [3, 2])

    def test_small_payloads_are_left_alone(self):
        options = dict(dedup_min_text_size=100, dedup_min_binary_size=50)
        for media, size, expected in [("text/html", 100, 0), ("text/html", 101, 1), ("image/png", 50, 0), ("image/png", 51, 1)]:
            self.redis.flushall()
            found = run(*[capture(f"http://a.com/{n}", b"x" * size, media) for n in range(2)], **options)
            self.assertEqual(list(found.values()).count("revisit"), expected, (media, size))
            self.assertEqual(self.redis.dbsize() > 0, expected > 0, (media, size))
        self.redis.flushall()
        found = run(capture("http://a.com/", b"payload"), dedup_only_with_bucket=True)
        self.assertEqual((found, self.redis.dbsize()), ({"http://a.com/": "response"}, 0))

    def test_what_is_not_archived_is_stored_by_the_next(self):
        hidden = [capture(f"http://a.com/hidden/{n}", b"payload") for n in range(3)]
        found = run(*hidden, capture("http://a.com/", b"payload"))
        self.assertEqual(found["http://a.com/"], "response")
        self.assertEqual(self.counts(), [1, 0])

    def test_a_process_that_died_holds_its_payload_for_as_long_as_it_said(self):
        self.redis.execute_command("DEDUPE.CLAIM", PREFIX, "crawl-1", "sha1:" + hashlib.sha1(b"payload").hexdigest(), "PX", 700)
        begun = time.monotonic()
        # Later captures do not wait.
        chain = Chain()
        chain.inq.put(capture("http://a.com/", b"payload"))
        chain.inq.put(capture("http://b.com/", b"other"))
        self.assertEqual(chain.done.get(timeout=10).url, b"http://b.com/")
        self.assertEqual(kinds(chain.end()), {"http://a.com/": "response"})
        self.assertGreater(time.monotonic() - begun, 0.5)

    def test_without_a_server_captures_are_archived(self):
        url = os.environ["CRAWLSPACE_URL"]
        os.environ |= {"CRAWLSPACE_URL": "redis://127.0.0.1:1/0", "CRAWLSPACE_TIMEOUT": "0.3"}
        try:
            found = run(*[capture(f"http://a.com/{n}", b"payload") for n in range(3)])
        finally:
            os.environ["CRAWLSPACE_URL"] = url
            del os.environ["CRAWLSPACE_TIMEOUT"]
        self.assertEqual(set(found.values()), {"response"})

    def test_what_was_sent_twice_counts_once(self):
        chain = Chain()
        storer = chain.steps[-1]
        send = storer.server.index._send_together
        cut = threading.Event()

        def broken(commands):
            replies = send(commands)
            if not cut.is_set():
                cut.set()
                raise redis.ConnectionError("the reply is lost")
            cut.clear()
            return replies

        storer.server.index._send_together = broken
        for n in range(20):
            chain.inq.put(capture(f"http://a.com/{n}", b"payload %d" % (n % 2)))
        chain.end()
        self.assertEqual(self.counts(), [20, 18])

    def test_settings_are_checked(self):
        controller = types.SimpleNamespace(dedup_db=object(), warc_writer_processor=None, _postfetch_chain=[])
        with self.assertLogs("warcprox_crawlspace", "CRITICAL") as logs, self.assertRaises(SystemExit):
            Dedup(warcprox.Options(), controller)
        self.assertIn("--dedup-db-file", logs.output[0])
        controller.dedup_db = None
        for name, value in [("CRAWLSPACE_CRAWL", ""), ("CRAWLSPACE_CLAIM", "soon"), ("CRAWLSPACE_TIMEOUT", "0")]:
            before = os.environ.get(name)
            os.environ["CRAWLSPACE_CRAWL"] = "crawl-1"
            os.environ[name] = value
            with self.assertLogs("warcprox_crawlspace", "CRITICAL") as logs, self.assertRaises(SystemExit):
                Dedup(warcprox.Options(), controller)
            self.assertIn(name, logs.output[0])
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before

    def test_dates_of_any_form_are_read(self):
        for date, expected in [
            (b"20260319102015", b"2026-03-19T10:20:15Z"),
            (b"20260319102015123", b"2026-03-19T10:20:15Z"),
            (b"2026-03-19T10:20:15.123Z", b"2026-03-19T10:20:15Z"),
            (b"2026-03-19T12:20:15+02:00", b"2026-03-19T10:20:15Z"),
            (b"20261399000000", None),
            (b"yesterday", None),
        ]:
            self.assertEqual(iso(date), expected, date)


if __name__ == "__main__":
    unittest.main()
