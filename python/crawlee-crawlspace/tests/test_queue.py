"""The request queue on the server at PORT, whose data the tests delete."""

import asyncio
import os
import subprocess
import sys
import time
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any, List, Optional

import redis
from crawlee import Request
from crawlee.configuration import Configuration
from crawlee.storage_clients import MemoryStorageClient
from crawlspace import Plain

from crawlee_crawlspace import CrawlspaceRequestQueueClient, CrawlspaceStorageClient

PORT = int(os.environ["PORT"])
URL = f"redis://127.0.0.1:{PORT}"
PREFIX = "{web}:"
IS_FULL = os.environ.get("CRAWLSPACE_PEERS") == "full"
#: Longest time for which a test waits for anything.
PATIENCE = 30
SHORT = timedelta(milliseconds=400)
NONE = timedelta(0)


def page(host: str, path: str = "", **options: Any) -> Request:
    return Request.from_url(f"https://{host}.example/{path}", **options)


def names(requests: List[Optional[Request]]) -> List[Optional[str]]:
    return [request and request.unique_key for request in requests]


class QueueTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.server = redis.Redis(port=PORT)
        self.server.flushall()
        self.storages: List[CrawlspaceStorageClient] = []

    async def asyncSetUp(self) -> None:
        # The debug mode of unittest makes each call several times slower.
        asyncio.get_running_loop().set_debug(False)

    async def asyncTearDown(self) -> None:
        for storage in self.storages:
            await storage.aclose()
        check = self.server.execute_command("CHG.CHECK", PREFIX)
        figures = check if isinstance(check, dict) else dict(zip(check[::2], check[1::2]))
        self.assertEqual(figures[b"consistent"], 1, figures)
        self.server.close()

    def storage(self, **options: Any) -> CrawlspaceStorageClient:
        options = {"pause": NONE, "storage_client": MemoryStorageClient(), **options}
        self.storages.append(CrawlspaceStorageClient(URL, PREFIX, **options))
        return self.storages[-1]

    async def client(self, **options: Any) -> CrawlspaceRequestQueueClient:
        """Opens the queue as another client, with a storage client and connections of its own."""
        return await self.storage(**options).create_rq_client(name="crawl")

    async def stalled(self, *requests: Request) -> CrawlspaceRequestQueueClient:
        """Returns a client that does not extend its leases, as if its process were stopped."""
        client = await self.client(lease=SHORT)
        if requests:
            await client.add_batch_of_requests(requests)

        async def stall() -> None:
            pass

        client._keep = stall  # type: ignore[method-assign]
        return client

    async def until_fetched(self, client: CrawlspaceRequestQueueClient) -> Request:
        """Fetches a request as soon as there is one."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            request = await client.fetch_next_request()
            if request is not None:
                return request
            await asyncio.sleep(0.01)
        self.fail("no request")

    def count(self, state: str) -> int:
        reply = self.server.execute_command("CHG.COUNT", PREFIX, "crawl")
        figures = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))
        return int(figures[state.encode()])

    # The seven comparisons with the Redis client of Crawlee.

    async def test_one_fetch_is_one_lease(self) -> None:
        a, b = await self.client(lease=timedelta(hours=1)), await self.client()
        await a.add_batch_of_requests([page(host) for host in "abc"])
        now = time.time() * 1000
        first = await a.fetch_next_request()
        self.assertEqual((self.count("leased"), self.count("queued")), (1, 2))
        [(chg, _, deadline, _)] = self.server.execute_command("CHG.LIST", PREFIX, "STATE", "BUSY")[1]
        self.assertEqual(chg, b"a.example")
        self.assertAlmostEqual(deadline, now + 3_600_000, delta=PATIENCE * 1000)
        others = [await b.fetch_next_request() for _ in range(3)]
        self.assertEqual(names([first, *others]), [page(host).unique_key for host in "abc"] + [None])

    async def test_late_owner_marks_handled_and_is_refused(self) -> None:
        a, b = await self.stalled(page("a")), await self.client()
        late = await self.until_fetched(a)
        request = await self.until_fetched(b)
        self.assertEqual(late.unique_key, request.unique_key)
        self.assertIsNone(await a.mark_request_as_handled(late))
        self.assertIsNone(late.handled_at)
        self.assertEqual((self.count("leased"), self.count("done")), (1, 0))
        self.assertIsNotNone(await b.mark_request_as_handled(request))
        self.assertEqual((self.count("leased"), self.count("done")), (0, 1))
        self.assertTrue(await a.is_finished())

    async def test_late_owner_reclaims_and_nobody_gets_the_request_twice(self) -> None:
        a, b, c = await self.stalled(page("a")), await self.client(), await self.client()
        late = await self.until_fetched(a)
        request = await self.until_fetched(b)
        for forefront in (False, True):
            self.assertIsNone(await a.reclaim_request(late, forefront=forefront))
            self.assertIsNone(await c.fetch_next_request())
        self.assertIsNotNone(await b.mark_request_as_handled(request))
        self.assertIsNone(await c.fetch_next_request())
        self.assertTrue(await c.is_finished())

    async def test_late_owner_in_the_same_client_is_refused(self) -> None:
        a = await self.stalled(page("a"))
        late = await self.until_fetched(a)
        request = await self.until_fetched(a)
        self.assertIsNone(await a.reclaim_request(late))
        self.assertIsNotNone(await a.mark_request_as_handled(request))
        self.assertTrue(await a.is_finished())

    async def test_client_dies_between_steps_and_its_request_is_fetched_and_finished(self) -> None:
        for step in ("fetched", "added", "extended"):
            with self.subTest(step):
                self.server.flushall()
                b = await self.client()
                await b.add_batch_of_requests([page("a", step)])
                program = [sys.executable, str(Path(__file__).with_name("client.py")), URL, PREFIX, step]
                with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
                    assert process.stdout is not None
                    self.assertEqual(process.stdout.readline().strip(), page("a", step).unique_key)
                    self.assertFalse(await b.is_finished())
                    process.kill()
                links = 1 if step == "added" else 0
                requests = [await self.until_fetched(b) for _ in range(1 + links)]
                keys = {request.unique_key for request in requests}
                self.assertEqual(keys, {page("a", step).unique_key, page("b", "link").unique_key} if links else keys)
                # The page is processed again, and its link is known.
                [link] = (await b.add_batch_of_requests([page("b", "link")])).processed_requests
                self.assertEqual(link.was_already_present, bool(links))
                if not links:
                    requests.append(await self.until_fetched(b))
                for request in requests:
                    self.assertIsNotNone(await b.mark_request_as_handled(request))
                self.assertTrue(await b.is_finished())
                self.assertEqual(self.count("done"), 2)

    async def test_queues_may_have_any_names(self) -> None:
        storage = self.storage()
        queues = [await storage.create_rq_client(name=name) for name in ("x", "x:front", "front:x", "alias:x")]
        queues.append(await storage.create_rq_client(alias="y"))
        for queue in queues:
            await queue.add_batch_of_requests([page("a")])
            await queue.add_batch_of_requests([page("b")], forefront=True)
        for queue in queues:
            self.assertEqual((await queue.get_metadata()).pending_request_count, 2)
            await queue.drop()
        self.assertEqual(self.server.keys(PREFIX + "crawlee*"), [])

    async def test_reclaim_to_the_forefront_reaches_another_client_at_once(self) -> None:
        a, b = await self.client(), await self.client()
        await a.add_batch_of_requests([page("a", str(number)) for number in range(3)])
        request = await a.fetch_next_request()
        assert request is not None
        request.retry_count = 7
        self.assertIsNotNone(await a.reclaim_request(request, forefront=True))
        again = await b.fetch_next_request()
        assert again is not None
        self.assertEqual((again.unique_key, again.retry_count), (page("a", "0").unique_key, 7))
        self.assertIsNotNone(await b.reclaim_request(again))
        self.assertEqual(names([await b.fetch_next_request()]), [page("a", "1").unique_key])

    async def test_memory_of_a_handled_request(self) -> None:
        client = await self.client()
        # The memory of the first requests of a space includes that of its tables.
        sizes, limit = ((10_000, 20_000), 25) if IS_FULL else ((0, 1_000), 100)
        used, done = [], 0
        for size in sizes:
            while done < size:
                numbers = range(done, done + 500)
                await client.add_batch_of_requests([page("a", f"{number}/{'x' * 60}") for number in numbers])
                for _ in numbers:
                    request = await client.fetch_next_request()
                    assert request is not None
                    await client.mark_request_as_handled(request)
                done += 500
            used.append(int(self.server.memory_usage(f"{PREFIX}chg_packed", samples=0) or 0))
        each = (used[1] - used[0]) / (sizes[1] - sizes[0])
        print(f"memory of a handled request: {each:.1f} bytes", file=sys.stderr)
        self.assertEqual(self.count("done"), done)
        self.assertLess(each, limit)

    async def test_politeness_of_all_clients_by_lease_pause_and_host(self) -> None:
        pause = timedelta(milliseconds=250)
        a, b = await self.client(pause=pause), await self.client(pause=pause)
        await a.add_batch_of_requests([page("a", "1"), page("a", "2"), page("b")])
        first = await a.fetch_next_request()
        # While a page of the host is in progress, no client gets another one. Other hosts do not wait.
        other = await b.fetch_next_request()
        self.assertEqual(names([first, other]), [page("a", "1").unique_key, page("b").unique_key])
        self.assertEqual(names([await a.fetch_next_request(), await b.fetch_next_request()]), [None, None])
        assert first is not None
        await a.mark_request_as_handled(first)
        ended = time.monotonic()
        second = await self.until_fetched(b)
        self.assertGreaterEqual(time.monotonic() - ended, 0.245)
        self.assertEqual(second.unique_key, page("a", "2").unique_key)

    # Everything else.

    async def test_finished_counts_requests_in_progress_of_any_client(self) -> None:
        a, b = await self.client(), await self.client()
        self.assertTrue(await b.is_finished())
        await a.add_batch_of_requests([page("a")])
        self.assertEqual((await b.is_empty(), await b.is_finished()), (False, False))
        request = await a.fetch_next_request()
        assert request is not None
        self.assertFalse(await b.is_finished())
        if hasattr(super(CrawlspaceRequestQueueClient, b), "is_finished"):
            self.assertTrue(await b.is_empty())
        await a.mark_request_as_handled(request)
        self.assertEqual((await b.is_empty(), await b.is_finished()), (True, True))

    async def test_lease_is_extended_while_a_request_is_in_progress(self) -> None:
        a, b = await self.client(lease=SHORT), await self.client()
        await a.add_batch_of_requests([page("a")])
        request = await a.fetch_next_request()
        assert request is not None
        end = time.monotonic() + 3 * SHORT.total_seconds()
        while time.monotonic() < end:
            self.assertIsNone(await b.fetch_next_request())
            await asyncio.sleep(0.02)
        self.assertIsNotNone(await a.mark_request_as_handled(request))

    async def test_closed_client_gives_its_requests_back_at_once(self) -> None:
        storage = self.storage()
        a, b = await storage.create_rq_client(name="crawl"), await self.client()
        await a.add_batch_of_requests([page("a")])
        self.assertIsNotNone(await a.fetch_next_request())
        await storage.aclose()
        self.assertEqual(names([await b.fetch_next_request()]), [page("a").unique_key])

    async def test_host_that_refuses_sessions_gets_a_longer_pause(self) -> None:
        a = await self.client()
        await a.add_batch_of_requests([page("a")])
        request = await a.fetch_next_request()
        assert request is not None
        request.session_rotation_count = 1
        await a.reclaim_request(request)
        reply = str(self.server.execute_command("CHG.WHY", PREFIX, "a.example"))
        self.assertRegex(reply, r"b'backoff'[:,] 1\b")
        self.assertIsNone(await a.fetch_next_request())

    async def test_requests_that_the_frontier_cannot_keep_are_unprocessed(self) -> None:
        a = await self.client()
        good = page("a", user_data={"text": "é" * 1000}, method="POST", payload=b"x=1")
        large = page("a", "large", user_data={"text": "x" * 70_000})
        binary = page("a", "binary", method="POST", payload=b"\xff")
        with self.assertLogs("crawlee_crawlspace", "ERROR") as logs:
            response = await a.add_batch_of_requests([large, good, binary])
        self.assertEqual([one.unique_key for one in response.processed_requests], [good.unique_key])
        unprocessed = [one.unique_key for one in response.unprocessed_requests]
        self.assertEqual(unprocessed, [large.unique_key, binary.unique_key])
        self.assertEqual(len(logs.records), 2)
        request = await a.fetch_next_request()
        assert request is not None
        self.assertEqual((request.payload, request.user_data["text"]), (b"x=1", "é" * 1000))

    async def test_request_that_has_become_too_large_is_tried_again_as_it_was(self) -> None:
        a = await self.client()
        await a.add_batch_of_requests([page("a", user_data={"text": "short"})])
        request = await a.fetch_next_request()
        assert request is not None
        request.user_data["text"] = "x" * 70_000
        with self.assertLogs("crawlee_crawlspace", "ERROR"):
            self.assertIsNotNone(await a.reclaim_request(request))
        again = await a.fetch_next_request()
        assert again is not None
        self.assertEqual(again.user_data["text"], "short")
        self.assertIsNotNone(await a.mark_request_as_handled(again))
        self.assertTrue(await a.is_finished())

    async def test_long_unique_keys_identify_requests(self) -> None:
        a = await self.client(parallel=2)
        long = [page("a", "x" * 100 + end) for end in "12"]
        response = await a.add_batch_of_requests([*long, long[0]])
        present = [one.was_already_present for one in response.processed_requests]
        self.assertEqual(present, [False, False, True])
        fetched = [await a.fetch_next_request() for _ in range(3)]
        self.assertEqual(names(fetched), [long[0].unique_key, long[1].unique_key, None])
        for request in fetched[:2]:
            assert request is not None
            self.assertIsNotNone(await a.mark_request_as_handled(request))
        [again] = (await a.add_batch_of_requests([long[1]])).processed_requests
        self.assertEqual((again.was_already_present, again.was_already_handled), (True, True))

    async def test_plain_frontier_is_refused_and_stays_as_it_is(self) -> None:
        self.server.execute_command("CHG.ADDURI", PREFIX, "other", "a.example", 0, 0, "https://a.example/")
        with self.assertRaisesRegex(Plain, "run CHG.PACK first"):
            await self.client()
        self.assertEqual(self.server.type(f"{PREFIX}chg_packed"), b"none")

    async def test_unnamed_queue_is_purged_only_when_asked(self) -> None:
        for purges, left in ((False, 1), (True, 0)):
            with self.subTest(purges):
                self.server.flushall()
                first = await self.storage().create_rq_client()
                await first.add_batch_of_requests([page("a")])
                storage = self.storage(purge_on_start=purges)
                second = await storage.create_rq_client(configuration=Configuration(purge_on_start=True))
                metadata = await second.get_metadata()
                self.assertEqual((metadata.total_request_count, metadata.had_multiple_clients), (left, True))

    async def test_queues_of_a_frontier_are_separate_but_share_the_pauses(self) -> None:
        storage = self.storage(pause=timedelta(hours=1))
        one, two = await storage.create_rq_client(name="one"), await storage.create_rq_client(alias="two")
        await one.add_batch_of_requests([page("a")])
        await two.add_batch_of_requests([page("a"), page("b")])
        request = await one.fetch_next_request()
        assert request is not None
        await one.mark_request_as_handled(request)
        self.assertEqual(names([await two.fetch_next_request()]), [page("b").unique_key])
        self.assertIsNone(await two.fetch_next_request())
        self.assertTrue(await one.is_finished())
        self.assertFalse(await two.is_finished())
        with self.assertRaisesRegex(ValueError, "does not exist"):
            await storage.create_rq_client(id="three")
        self.assertEqual((await (await storage.create_rq_client(id="alias:two")).get_metadata()).total_request_count, 2)


if __name__ == "__main__":
    unittest.main()
