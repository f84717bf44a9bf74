"""The index over many prefixes. Its placement is also tested in client/src/dedupe/sharded."""

import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import connect
import crawlspace
from crawlspace.shards import prefixes, shard_of

SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
SHA1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
SHA1_BASE32 = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
MD5 = "d41d8cd98f00b204e9800998ecf8427e"
MANY = 1 << 20
DATE = "20260319102015"


class PlacementTest(unittest.TestCase):
    def test_prefixes_are_those_of_the_library_for_rust(self) -> None:
        self.assertEqual(prefixes("coll", 1), [b"{coll-0}:"])
        self.assertEqual(prefixes("coll", 4), [b"{coll-0}:", b"{coll-1.3}:", b"{coll-2.3}:", b"{coll-3.3}:"])
        for wrong in ("", "a{b", "a}b", "x" * 257):
            with self.assertRaises(ValueError):
                prefixes(wrong, 2)
        for count in (0, 1025):
            with self.assertRaises(ValueError):
                prefixes("coll", count)

    def test_hashes_are_in_the_shards_of_the_library_for_rust(self) -> None:
        for hash, shard in (
            (SHA256, 13_929),
            (SHA1, 225_077),
            (MD5, 922_797),
            ("something else entirely", 3643),
            ("colon at the end:", 892_654),
        ):
            self.assertEqual(shard_of(hash, MANY), shard, hash)

    def test_all_spellings_are_in_one_shard(self) -> None:
        for label, value in (("sha256", SHA256), ("sha1", SHA1), ("md5", MD5)):
            for spelling in (value.upper(), f"{label.upper()}:{value}", f"urn:{label}:{value}", f"other:{value}"):
                self.assertEqual(shard_of(spelling, MANY), shard_of(value, MANY), spelling)
        for spelling in (SHA1_BASE32, f"sha1:{SHA1_BASE32}", f"sha-1:{SHA1_BASE32.lower()}"):
            self.assertEqual(shard_of(spelling, MANY), shard_of(SHA1, MANY), spelling)


class ShardedTest(unittest.TestCase):
    def setUp(self) -> None:
        connect.empty()

    def test_an_index_of_many_shards_is_like_one_index(self) -> None:
        for kind, make in connect.kinds().items():
            connect.empty()
            sharded = connect.family(kind, "ShardedIndex")(make(), "coll", 5)
            hashes = [f"sha256:{n:064x}" for n in range(60)]
            records = [(hash, DATE, f"https://e.com/{n}", 100 + n) for n, hash in enumerate(hashes)]

            async def capture() -> Any:
                async with await sharded.capture("b", "sha256:" + "f" * 64) as one:
                    return await one.add(DATE, "https://e.com/f", 7)

            def block() -> Any:
                with sharded.capture("b", "sha256:" + "f" * 64) as one:
                    return one.add(DATE, "https://e.com/f", 7)

            steps = [
                lambda: sharded.begin("a"),
                lambda: sharded.wacz_open("a", "a.wacz"),
                lambda: sharded.add("a", records[:40]),
                lambda: sharded.lookup(hashes, crawl="a"),
                lambda: sharded.wacz_close("a", 0, "a.wacz", "sha256:00", 10),
                lambda: sharded.commit("a"),
                lambda: sharded.commit("a"),
                lambda: sharded.revisit("b", [(hash, 50) for hash in hashes[:10]]),
                lambda: sharded.add("b", records[20:]),
                capture if kind.startswith("aio") else block,
                lambda: sharded.commit("b"),
                lambda: sharded.lookup(hashes),
                lambda: sharded.stats(),
                lambda: sharded.crawl_stats("b"),
                lambda: sharded.wacz_list("a"),
            ]
            client = _Closing(sharded)
            values = connect.run_all(kind, [lambda _, step=step: step() for step in steps], client)
            begun, place, added, running, _, first, second, revisited, more, captured = values[:10]
            other, found, stats, crawl, waczs = values[10:]
            self.assertEqual((begun, place, added, revisited, more, captured), (True, 0, 40, 10, 40, True), kind)
            self.assertEqual([bool(record) for record in running], [True] * 40 + [False] * 20)
            self.assertEqual((tuple(first), tuple(second), tuple(other)), ((40, 0), (0, 0), (21, 20)), kind)
            self.assertEqual([record.crawl for record in found], [b"a"] * 40 + [b"b"] * 20)
            self.assertEqual((stats.crawls, stats.uncommitted, stats.hashes, stats.total_urls), (2, 0, 61, 91))
            self.assertEqual((crawl.state, crawl.hashes, crawl.dupe_urls), ("committed", 41, 10))
            self.assertEqual([wacz.filename for wacz in waczs], [b"a.wacz"])

    def test_number_of_shards_is_stored(self) -> None:
        with crawlspace.ShardedIndex(connect.URL, "coll") as index:
            with self.assertRaisesRegex(ValueError, "no sharded index"):
                index.stats()
        with crawlspace.ShardedIndex(connect.URL, "coll", 3) as index:
            self.assertEqual(len(index.shards()), 3)
        with crawlspace.ShardedIndex(connect.URL, "coll") as index:
            self.assertEqual([shard.prefix for shard in index.shards()], prefixes("coll", 3))
        with crawlspace.ShardedIndex(connect.URL, "coll", 4) as index:
            with self.assertRaisesRegex(ValueError, "this index has 3 shards, not 4"):
                index.stats()

    def interrupt(self, index: crawlspace.ShardedIndex) -> None:
        """Commits the crawl in all shards except the home shard."""

        def refuse(_: Any) -> Any:
            raise KeyboardInterrupt

        index._home.commit = refuse  # type: ignore[method-assign]
        with self.assertRaises(KeyboardInterrupt):
            index.commit("a")
        del index._home.commit  # type: ignore[method-assign]

    def test_interrupted_commits_report_the_whole_commit(self) -> None:
        with crawlspace.ShardedIndex(connect.URL, "coll", 3) as index:
            for first in (0, 20, 40):
                index.add("a", [(f"sha256:{n:064x}", DATE, "https://e.com/", 1) for n in range(first, first + 20)])
                if first < 40:
                    self.interrupt(index)
            self.assertEqual(tuple(index.commit("a")), (60, 0))
            self.assertEqual(list(connect.plain().hgetall(index._home.prefix + b"shards")), [b"shards"])

    def test_commits_at_the_same_time_count_no_hash_twice(self) -> None:
        with crawlspace.ShardedIndex(connect.URL, "coll", 3) as index:
            index.add("a", [(f"sha256:{n:064x}", DATE, "https://e.com/", 1) for n in range(30)])
            self.interrupt(index)
            marks, server = index._home.prefix + b"shards", connect.plain()
            (counts,) = (value for field, value in server.hgetall(marks).items() if field != b"shards")
            # Each shard replies with the same counts to all clients that commit a crawl at the same time.
            server.hset(marks, mapping={f"commit {run:016x} a": counts for run in range(3)})
            self.assertEqual(tuple(index.commit("a")), (30, 0))
            self.assertEqual(list(server.hgetall(marks)), [b"shards"])

    def test_four_clients_commit_a_crawl_at_the_same_time(self) -> None:
        number = 4
        with crawlspace.ShardedIndex(connect.URL, "coll", 5) as index:
            index.add("a", [(f"sha256:{n:064x}", DATE, "https://e.com/", 1) for n in range(500)])
            together = threading.Barrier(number)

            def commit(_: int) -> int:
                with crawlspace.ShardedIndex(connect.URL, "coll") as client:
                    client.shards()
                    together.wait()
                    return client.commit("a").new

            with ThreadPoolExecutor(number) as threads:
                for new in threads.map(commit, range(number)):
                    self.assertLessEqual(new, 500)
            stats = index.stats()
            self.assertEqual((stats.crawls, stats.hashes, stats.uncommitted), (1, 500, 0))

    def test_unfinished_removal_blocks_a_commit(self) -> None:
        with crawlspace.ShardedIndex(connect.URL, "coll", 3) as index:
            index.add("a", [("sha256:" + "0" * 64, DATE, "https://e.com/", 1)])
            connect.plain().hset(index._home.prefix + b"shards", b"remove 00 a", 1)
            with self.assertRaisesRegex(crawlspace.Error, "SHARDED"):
                index.commit("a")


class _Closing:
    """Gives `run_all` the client of the server."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._server = index._home._server

    def close(self) -> None:
        self._index.close()

    async def aclose(self) -> None:
        await self._index.aclose()
