"""The two helpers, repeated calls, and waits."""

import asyncio
import os
import signal
import threading
import time
import unittest
from typing import Any, Callable, List

import redis

import connect
import crawlspace
from crawlspace import aio

CRAWL = b"crawl-1"
HASH = "sha256:" + "0" * 64
DATE = "20260319102015"
A, B = b"https://a.com/\xff", b"https://b.com/"


def interrupted_after(client: Any, name: str, error: BaseException, times: int = 1) -> List[Any]:
    """Makes the client lose the replies to the next calls of a command. Returns the words that were sent."""
    send = client._server.execute_command
    sent: List[Any] = []

    def lossy(*words: Any) -> Any:
        reply = send(*words)
        if words[0] == name:
            sent.append(words)
            if len(sent) <= times:
                raise error
        return reply

    client._server.execute_command = lossy
    return sent


LOST = redis.ConnectionError("the reply is lost")


class LeasesTest(unittest.TestCase):
    def setUp(self) -> None:
        connect.empty()
        self.frontier = crawlspace.Frontier(connect.plain(), "{f}:")
        self.frontier.pack()
        self.frontier.discover(CRAWL, [("a.com", A, 0, 3), ("b.com", B)])

    def tearDown(self) -> None:
        self.frontier._server.close()

    def states(self) -> List[Any]:
        return [known and known.state for known in self.frontier.known(CRAWL, [A, B])]

    def loop(self, **options: Any) -> Any:
        return self.frontier.leases(idle=50, lease=60_000, min=1, **options)

    def assert_free(self) -> None:
        """Asserts that no worker holds a lease, so that no other worker has to wait for a deadline."""
        info = self.frontier.info()
        self.assertEqual((info.groups_busy, self.frontier.count(CRAWL).leased), (0, 0), info)
        self.assertTrue(self.frontier.check().consistent)

    def test_a_lease_ends_with_the_call_that_takes_the_next(self) -> None:
        sent = interrupted_after(self.frontier, "CHG.RELEASE", LOST, 0)
        found = []
        for lease in self.loop():
            found.append((lease.chg, lease.uri, lease.depth, lease.attempts, lease.key, lease.payload, lease.execution))
            lease.done(status=200)
        self.assertEqual(found, [(b"a.com", A, 3, 0, None, None, CRAWL), (b"b.com", B, 0, 0, None, None, CRAWL)])
        self.assertEqual(self.states(), ["done", "done"])
        self.assertTrue(all(b"NEXT" in words for words in sent))
        self.assertEqual([known.status for known in self.frontier.known(CRAWL, [A])], [200])
        self.assert_free()

    def test_what_the_body_does_not_end_is_put_back(self) -> None:
        for lease in self.loop():
            break
        self.assert_free()
        skipped = 0
        for lease in self.loop():
            if lease.uri == A and skipped < 3:
                skipped += 1
                continue
            lease.done()
        self.assertEqual(self.states(), ["done", "done"])

    def test_an_exception_gives_the_lease_back_at_once(self) -> None:
        for error in (ValueError, KeyboardInterrupt):
            for freed in (False, True):
                with self.subTest(error=error, freed=freed):
                    with self.assertRaises(error):
                        for lease in self.loop():
                            if freed:
                                lease.later(60_000)
                            raise error
                    self.assert_free()
                    self.assertEqual(self.states(), ["queued", "queued"])
                    self.assertEqual(self.frontier.uris(lease.chg).items[0].attempts, 0)

    def test_an_ending_counts_even_if_the_body_raises_after_it(self) -> None:
        with self.assertRaises(ValueError):
            with self.loop() as leases:
                for lease in leases:
                    lease.done()
                    raise ValueError
        self.assertEqual(self.states(), ["done", "queued"])
        self.assert_free()

    def test_an_interrupt_during_the_wait_loses_no_lease(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            interrupted_after(self.frontier, "CHG.RELEASE", KeyboardInterrupt())
            for lease in self.loop():
                lease.done()
        self.assertEqual(self.states(), ["done", "queued"])
        self.assert_free()

    def test_a_signal_ends_a_wait(self) -> None:
        def interrupt(*_: Any) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with self.assertRaises(KeyboardInterrupt):
                for lease in self.frontier.leases(min=1):
                    lease.done()
                    if lease.uri == B:
                        signal.setitimer(signal.ITIMER_REAL, 0.2)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(self.states(), ["done", "done"])
        self.assert_free()

    def test_retry_sets_time_and_payload(self) -> None:
        self.frontier.discover(CRAWL, [("c.com", "https://c.com/", 0, 0, None, b"one\xff")])
        at = int(time.time() * 1000) + 3_600_000
        payloads = []
        for lease in self.loop():
            if lease.chg == b"c.com":
                payloads.append(lease.payload)
                if len(payloads) == 1:
                    lease.retry(payload=b"two\xff", delay=0)
                else:
                    lease.done()
            elif lease.chg == b"a.com":
                lease.retry(at, retry_after=0, crawl_delay=0, elapsed=1)
            else:
                lease.done(due=0)
        self.assertEqual(payloads, [b"one\xff", b"two\xff"])
        self.assertEqual(self.frontier.known(CRAWL, [A])[0].due, at)

    def test_later_frees_the_host_before_its_uri_is_done(self) -> None:
        self.frontier.discover(CRAWL, [("a.com", "https://a.com/2")])
        held = []
        for lease in self.loop():
            lease.later(60_000, delay=0)
            held.append(lease.uri)
            self.assertEqual(self.frontier.known(CRAWL, [lease.uri])[0].state, "leased")
            self.assertEqual(self.frontier.info().groups_busy, 0)
            lease.extend()
            if len(held) == 1:
                lease.retry()
            else:
                lease.done()
            with self.assertRaises(ValueError):
                lease.later()
        self.assertEqual(len(held), 4)
        self.assertEqual(self.frontier.count(CRAWL).done, 3)
        self.assert_free()

    def test_a_gate_frees_the_host_with_the_lease(self) -> None:
        key = b"k" * 20
        self.frontier.discover(CRAWL, [("c.com", "https://c.com/", 0, 0, key)])
        tried = 0
        for lease in self.loop(gate=1, uris=5):
            tried += 1
            if lease.chg == b"c.com" and tried < 5:
                lease.retry()
            else:
                lease.done()
        self.assertEqual(self.frontier.known(CRAWL, [A, B, key]), [
            known._replace(state="done") for known in self.frontier.known(CRAWL, [A, B, key])])
        self.assertGreaterEqual(tried, 5)
        self.assert_free()

    def test_a_plain_frontier_has_leases_too(self) -> None:
        plain = crawlspace.Frontier(connect.plain(), "{plain}:")
        plain.add_uri(CRAWL, [("a.com", A)])
        plain.add("crawl-2", [("b.com", 0)])
        found = []
        for lease in plain.leases(uris=None, idle=50, min=1):
            if lease.execution is None:
                with self.assertRaises(ValueError):
                    lease.done()
                lease.done(execution="crawl-2", count=1)
                found.append(lease.chg)
            else:
                found.append(lease.uri)
                lease.done()
        self.assertEqual(sorted(found), [b"b.com", A])
        self.assertEqual(plain.info().uris, 0)

    def test_only_urls_of_the_execution_are_leased(self) -> None:
        self.frontier.discover("crawl-2", [("c.com", "https://c.com/")])
        found = []
        for lease in self.loop(execution="crawl-2"):
            found.append(lease.uri)
            lease.done()
        self.assertEqual(found, [b"https://c.com/"])

    def test_a_late_worker_changes_nothing(self) -> None:
        other = crawlspace.Frontier(connect.plain(), "{f}:")
        found = []
        with self.assertLogs("crawlspace", "WARNING"):
            for lease in self.frontier.leases(idle=50, lease=60_000, min=1):
                found.append(lease.uri)
                if len(found) == 1:
                    # The lease expires, and another worker has fetched the URL meanwhile.
                    other.extend(lease.chg, lease.token, 1)
                    taken = None
                    while not taken:
                        taken = other.next(group=lease.chg, uris=1)
                    (taken,) = taken
                    other.release(taken.chg, taken.token, delay=0, done=CRAWL)
                    self.frontier.discover(CRAWL, [("a.com", "https://a.com/new")])
                    (taken,) = other.next(group=lease.chg, uris=1)
                lease.done()
        self.assertEqual(found, [A, B])
        self.assertEqual(self.frontier.count(CRAWL).leased, 1)

    def test_a_lost_reply_to_a_release_loses_no_lease(self) -> None:
        sent = interrupted_after(self.frontier, "CHG.RELEASE", LOST)
        found = []
        for lease in self.loop():
            found.append(lease.uri)
            lease.done()
        self.assertEqual(found, [A, B])
        self.assertEqual(sent[0], sent[1])
        self.assertEqual(self.frontier.count(CRAWL).done, 2)
        self.assert_free()

    def test_a_lost_reply_does_not_end_the_wait_for_a_lease(self) -> None:
        self.frontier._longest_wait = None
        send, sent = self.frontier._server.execute_command, []

        def lossy(*words: Any) -> Any:
            sent.append(words[0])
            if sent.count("CHG.RELEASE") != 2 or words[0] != "CHG.RELEASE":
                return send(*words)
            send(*words[: words.index(b"NEXT")])
            raise LOST

        def discover() -> None:
            other = crawlspace.Frontier(connect.URL, "{f}:")
            while other.info().waiters == 0 and not ended.is_set():
                pass
            other.discover(CRAWL, [("c.com", "https://c.com/")])
            other.close()

        self.frontier._server.execute_command = lossy
        ended = threading.Event()
        thread = threading.Thread(target=discover)
        thread.start()
        found = []
        for lease in self.frontier.leases(min=1):
            found.append(lease.chg)
            lease.done()
            if len(found) == 3:
                break
        ended.set()
        thread.join()
        self.assertEqual(found, [b"a.com", b"b.com", b"c.com"])
        self.assertEqual(sent[:5], ["CHG.NEXT", "CHG.RELEASE", "CHG.RELEASE", "CHG.RELEASE", "CHG.NEXT"])

    def test_a_connection_that_another_task_has_closed_is_a_lost_connection(self) -> None:
        closed = AttributeError("'NoneType' object has no attribute 'writelines'")
        sent = interrupted_after(self.frontier, "CHG.COUNT", closed)
        self.assertEqual(self.frontier.count(CRAWL).known, 2)
        self.assertEqual(len(sent), 2)
        self.frontier.patience = 0
        interrupted_after(self.frontier, "CHG.COUNT", closed)
        with self.assertRaisesRegex(redis.ConnectionError, "another call has closed the connection"):
            self.frontier.count(CRAWL)

    def test_a_server_that_is_away_ends_the_loop_after_the_patience(self) -> None:
        frontier = crawlspace.Frontier("redis://127.0.0.1:1", "{f}:", patience=0.2)
        begun = time.monotonic()
        with self.assertRaises(redis.ConnectionError):
            for _ in frontier.leases():
                self.fail("there is no server")
        self.assertLess(time.monotonic() - begun, 5)

    def test_asyncio_gives_leases_back(self) -> None:
        async def run(end: Callable[[Any], Any]) -> None:
            async with aio.Frontier(connect.URL, "{f}:") as frontier:
                async with frontier.leases(idle=50, min=1) as leases:
                    async for lease in leases:
                        await end(lease)

        async def fail(lease: Any) -> None:
            raise ValueError

        async def free_and_fail(lease: Any) -> None:
            await lease.later()
            raise ValueError

        for end in (fail, free_and_fail):
            with self.assertRaises(ValueError):
                asyncio.run(run(end))
            self.assert_free()

        async def cancelled() -> None:
            waiting = asyncio.Event()

            async def hang(lease: Any) -> None:
                waiting.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(run(hang))
            await waiting.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(cancelled())
        self.assert_free()

        async def cancelled_while_waiting() -> None:
            async with aio.Frontier(connect.URL, "{f}:") as frontier:
                async def work() -> None:
                    async with frontier.leases(min=1) as leases:
                        async for lease in leases:
                            lease.retry(int(time.time() * 1000) + 60_000)

                task = asyncio.create_task(work())
                while (await frontier.info()).waiters == 0:
                    await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        asyncio.run(cancelled_while_waiting())
        self.assert_free()
        self.assertEqual(self.states(), ["queued", "queued"])
        self.frontier.settle(CRAWL, [("a.com", A, 0), ("b.com", B, 0)])

        async def end(lease: Any) -> None:
            await lease.extend()
            lease.done()

        asyncio.run(run(end))
        self.assertEqual(self.states(), ["done", "done"])

    def test_asyncio_without_a_context_manager_gives_leases_back_at_the_end(self) -> None:
        async def run() -> None:
            frontier = aio.Frontier(connect.URL, "{f}:")
            async for lease in frontier.leases(idle=50, min=1):
                break

        asyncio.run(run())
        self.assert_free()


class WaitsTest(unittest.TestCase):
    def setUp(self) -> None:
        connect.empty()

    def test_a_wait_is_never_longer_than_the_timeout_of_the_client(self) -> None:
        for server in (connect.plain(socket_timeout=0.6), f"{connect.URL}?socket_timeout=0.6"):
            frontier = crawlspace.Frontier(server, "{f}:", patience=0)
            frontier.pack()
            begun = time.monotonic()
            self.assertEqual(frontier.next(block=500, uris=1), [])
            self.assertGreater(time.monotonic() - begun, 0.49)
            frontier.discover(CRAWL, [("a.com", A)])
            (lease,) = frontier.next(uris=1)
            later = crawlspace.Frontier(connect.plain(), "{f}:")
            timer = threading.Timer(0.4, later.discover, (CRAWL, [("b.com", B)]))
            timer.start()
            released = frontier.release(lease.chg, lease.token, delay=0, done=CRAWL, next=crawlspace.Next(block=0))
            self.assertEqual(released.lease.uri, B)
            self.assertGreater(released.due, 0)
            timer.join()
            index = crawlspace.Dedupe(server, "{d}:", patience=0)
            index.claim(CRAWL, HASH, 400)
            self.assertEqual(index.claim(CRAWL, HASH, 400, block=50).outcome, "pending")
            self.assertEqual(index.claim(CRAWL, HASH, 400, block=0).outcome, "claimed")
            connect.empty()

    def test_a_wait_of_asyncio_is_split_too(self) -> None:
        async def run() -> Any:
            server = redis.asyncio.Redis(port=connect.PORT, socket_timeout=0.6)
            frontier = aio.Frontier(server, "{f}:", patience=0)
            begun = time.monotonic()
            self.assertEqual(await frontier.next(block=500), [])
            await getattr(server, "aclose", server.close)()
            return time.monotonic() - begun

        self.assertGreater(asyncio.run(run()), 0.49)


class CaptureTest(unittest.TestCase):
    def setUp(self) -> None:
        connect.empty()
        self.index = crawlspace.Dedupe(connect.plain(), "{d}:")

    def tearDown(self) -> None:
        self.index._server.close()

    def counts(self) -> Any:
        stats = self.index.crawl_stats(CRAWL)
        return stats.hashes, stats.total_urls, stats.dupe_urls

    def claims(self) -> int:
        return connect.plain().hlen("{d}:claims")

    def test_a_payload_is_stored_once(self) -> None:
        for url in (A, B, A):
            with self.index.capture(CRAWL, HASH) as capture:
                if capture.original:
                    self.assertEqual((capture.original.url, capture.original.date), (A, DATE.encode()))
                    capture.revisit(50)
                else:
                    self.assertTrue(capture.add(DATE, url, 500))
        self.assertEqual(self.counts(), (1, 3, 2))
        self.assertEqual(self.claims(), 0)

    def test_an_exception_releases_the_claim(self) -> None:
        for error in (ValueError, KeyboardInterrupt):
            with self.assertRaises(error):
                with self.index.capture(CRAWL, HASH):
                    self.assertEqual(self.claims(), 1)
                    raise error
            self.assertEqual(self.claims(), 0)
        with self.index.capture(CRAWL, HASH) as capture:
            with self.assertRaises(ValueError):
                capture.revisit(50)
        self.assertEqual(self.claims(), 0)

    def test_others_wait_until_the_payload_is_stored(self) -> None:
        found = []

        def other() -> None:
            with crawlspace.Dedupe(connect.plain(), "{d}:").capture(CRAWL, HASH) as capture:
                found.append(capture.original.url)
                capture.revisit(50)

        with self.index.capture(CRAWL, HASH) as capture:
            with crawlspace.Dedupe(connect.plain(), "{d}:").capture(CRAWL, HASH, block=None) as second:
                self.assertIsNone(second.original)
            thread = threading.Thread(target=other)
            thread.start()
            while connect.plain().info("crawlspace")["crawlspace_claims_pending"] == 0:
                pass
            capture.add(DATE, A, 500)
        thread.join()
        self.assertEqual(found, [A])
        self.assertEqual(self.counts(), (1, 2, 1))

    def test_a_record_is_added_although_its_claim_was_lost(self) -> None:
        with self.index.capture(CRAWL, HASH, px=1) as capture:
            other = self.index.claim(CRAWL, HASH, 60_000, block=0)
            self.assertEqual(other.outcome, "claimed")
            self.assertTrue(capture.add(DATE, A, 500))
        self.index.add(CRAWL, [(HASH, DATE, B, 500)], token=other.token)
        self.assertEqual(self.counts(), (1, 2, 0))

    def test_a_lost_reply_counts_once(self) -> None:
        for name in ("DEDUPE.ADD", "DEDUPE.REVISIT"):
            interrupted_after(self.index, name, LOST)
        with self.index.capture(CRAWL, HASH) as capture:
            capture.add(DATE, A, 500)
        with self.index.capture(CRAWL, HASH) as capture:
            capture.revisit(50)
        self.assertEqual(self.counts(), (1, 2, 1))
        frontier = crawlspace.Frontier(connect.plain(), "{f}:")
        interrupted_after(frontier, "CHG.ADD", LOST, 3)
        self.assertEqual(frontier.add(CRAWL, [("a.com", 0)]), [1])
        frontier._server.close()

    def test_calls_of_many_threads_count_once_each(self) -> None:
        def work(number: int) -> None:
            for call in range(20):
                self.index.revisit(CRAWL, [(HASH, 50)])

        self.index.add(CRAWL, [(HASH, DATE, A, 500)])
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.counts(), (1, 161, 160))

    def test_a_forked_process_counts_its_own_calls(self) -> None:
        self.index.add(CRAWL, [(HASH, DATE, A, 500)])
        child = os.fork()
        for _ in range(3):
            self.index.revisit(CRAWL, [(HASH, 50)])
        if child == 0:
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.counts(), (1, 7, 6))

    def test_a_capture_is_used_as_a_context_manager(self) -> None:
        capture = self.index.capture(CRAWL, HASH)
        for call in (lambda: capture.add(DATE, A, 500), lambda: capture.revisit(50)):
            with self.assertRaisesRegex(RuntimeError, "with index.capture"):
                call()
        with capture:
            capture.add(DATE, A, 500)
        with self.assertRaisesRegex(RuntimeError, "with index.capture"):
            capture.add(DATE, A, 500)

    def test_what_cannot_be_repeated_is_not_repeated(self) -> None:
        frontier = crawlspace.Frontier(connect.plain(), "{f}:")
        sent = interrupted_after(frontier, "CHG.EXPIRED", LOST)
        with self.assertRaises(redis.ConnectionError):
            frontier.expired()
        self.assertEqual(len(sent), 1)
        frontier._server.close()

    def test_asyncio_stores_a_payload_once(self) -> None:
        async def one(index: Any, url: bytes) -> str:
            async with index.capture(CRAWL, HASH) as capture:
                if capture.original:
                    await capture.revisit(50)
                    return "revisit"
                while connect.plain().info("crawlspace")["crawlspace_claims_pending"] < 9:
                    await asyncio.sleep(0)
                await capture.add(DATE, url, 500)
                return "response"

        async def run() -> List[str]:
            async with aio.Dedupe(connect.URL, "{d}:") as index:
                with self.assertRaises(ValueError):
                    async with index.capture(CRAWL, HASH):
                        raise ValueError
                return await asyncio.gather(*(one(index, b"https://a.com/%d" % n) for n in range(10)))

        self.assertEqual(sorted(asyncio.run(run())), ["response"] + 9 * ["revisit"])
        self.assertEqual(self.counts(), (1, 10, 9))


if __name__ == "__main__":
    unittest.main()
