"""A dedupe index that is spread over many prefixes, and therefore over the servers of a cluster."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from redis.asyncio import Redis, RedisCluster

from ..commands import Bytes, Command, data, dedupe, same
from ..errors import Error, NoCrawl
from ..replies import Committed, CrawlStats, IndexStats, Record, Wacz
from ..shards import prefixes, shard_of
from .dedupe import Dedupe, OpenCapture

if TYPE_CHECKING:
    from typing_extensions import Self


class ShardedIndex:
    """A large dedupe index, spread over the prefixes of its shards.

    The library for Rust and ``crawlspace dedupe … --sharded NAME`` open the same index by its name. ``shards`` is
    needed only to create it: the number is stored with the index, and never changes. Calls that end or remove a crawl,
    other than ``commit``, are in the tool. ``server`` and ``patience`` are those of ``Dedupe``.
    """

    def __init__(
        self,
        server: "Union[str, Redis, RedisCluster]",
        name: Bytes,
        shards: Optional[int] = None,
        *,
        patience: float = 60.0,
    ) -> None:
        self.name = data(name)
        self._wanted = shards
        self._home = Dedupe(server, prefixes(name, 1)[0], patience=patience)
        self._shards: List[Dedupe] = []
        self._marks = self._home.prefix + b"shards"

    async def aclose(self) -> None:
        """Closes the connections that were made from a URL. A client that was passed stays open."""
        await self._home.aclose()

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def shards(self) -> List[Dedupe]:
        """Returns the shards, the home shard first. Each is an ordinary index."""
        if self._shards:
            return self._shards
        get: Command[Any] = Command(["HGET", self._marks, b"shards"], same)
        stored = await self._home._run(get)
        if stored is None:
            if self._wanted is None:
                raise ValueError(f"there is no sharded index {self.name!r}: pass its number of shards to create it")
            prefixes(self.name, self._wanted)
            await self._home._run(Command(["HSETNX", self._marks, b"shards", self._wanted], same))
            stored = await self._home._run(get)
        count = int(stored)
        if self._wanted not in (None, count):
            raise ValueError(f"this index has {count} shards, not {self._wanted}; their number cannot be changed")
        server, patience = self._home._server, self._home.patience
        others = prefixes(self.name, count)[1:]
        self._shards = [self._home, *(Dedupe(server, prefix, patience=patience) for prefix in others)]
        return self._shards

    async def shard_of(self, hash: Bytes) -> Dedupe:
        """Returns the shard of a hash."""
        shards = await self.shards()
        return shards[shard_of(hash, len(shards))]

    async def _parts(self, items: Sequence[Any], hash: Callable[[Any], Bytes]) -> Dict[int, List[int]]:
        """Returns the positions of the items of each shard."""
        count = len(await self.shards())
        parts: Dict[int, List[int]] = {}
        for position, item in enumerate(items):
            parts.setdefault(shard_of(hash(item), count), []).append(position)
        return parts

    async def _each(self, build: Callable[[bytes], Command[Any]]) -> List[Any]:
        """Sends a command to each shard in one round trip. Returns a value or an ``Error`` for each."""
        return await self._home.send([build(shard.prefix) for shard in await self.shards()])

    async def lookup(self, hashes: Iterable[Bytes], *, crawl: Optional[Bytes] = None) -> List[Optional[Record]]:
        """Returns the original record of each hash, or None if it is unknown."""
        wanted = [data(hash) for hash in hashes]
        parts = await self._parts(wanted, lambda hash: hash)
        commands = [
            dedupe.lookup(self._shards[shard].prefix, [wanted[at] for at in part], crawl=crawl)
            for shard, part in parts.items()
        ]
        found: List[Optional[Record]] = [None] * len(wanted)
        for part, records in zip(parts.values(), _checked(await self._home.send(commands))):
            for at, record in zip(part, records):
                found[at] = record
        return found

    async def add(self, crawl: Bytes, records: Iterable[Sequence[Any]], *, earliest: bool = False) -> int:
        """Adds ``response`` records that were written. Returns the number of hashes that are new in this crawl."""
        return await self._write(list(records), lambda prefix, part: dedupe.add(prefix, crawl, part, earliest=earliest))

    async def revisit(
        self, crawl: Bytes, records: Iterable[Sequence[Any]], *, ref: Optional[Bytes] = None, no_ref: bool = False
    ) -> int:
        """Counts ``revisit`` records that were written. Returns the number of counted revisits."""
        return await self._write(
            list(records), lambda prefix, part: dedupe.revisit(prefix, crawl, part, ref=ref, no_ref=no_ref)
        )

    async def _write(self, records: List[Any], build: Callable[[bytes, List[Any]], Command[int]]) -> int:
        parts = await self._parts(records, lambda record: record[0])
        commands = [build(self._shards[shard].prefix, [records[at] for at in part]) for shard, part in parts.items()]
        return sum(_checked(await self._home.send(commands)))

    async def capture(
        self, crawl: Bytes, hash: Bytes, *, px: int = 60_000, block: Optional[int] = 0
    ) -> OpenCapture:
        """Returns the context manager of ``Dedupe.capture`` for the shard of the hash."""
        return (await self.shard_of(hash)).capture(crawl, hash, px=px, block=block)

    async def begin(self, crawl: Bytes) -> bool:
        """Starts a crawl. Returns False if it was in progress already."""
        shards = await self.shards()
        begins = await self._home.begin(crawl)
        asked = [Command(["SISMEMBER", one.prefix + b"uncommittedcrawls", data(crawl)], bool) for one in shards[1:]]
        return bool(begins) and not any(_checked(await self._home.send(asked)))

    async def wacz_open(self, crawl: Bytes, filename: Bytes) -> int:
        """Registers a WACZ file, and returns its index in the crawl."""
        await self.shards()
        return await self._home.wacz_open(crawl, filename)

    async def wacz_close(
        self, crawl: Bytes, index: int, filename: Bytes, hash: Bytes, size: int, *, rename: bool = False
    ) -> None:
        """Marks a WACZ file as finished; ``rename`` allows a new file name."""
        await self.shards()
        await self._home.wacz_close(crawl, index, filename, hash, size, rename=rename)

    async def wacz_list(self, crawl: Bytes) -> List[Wacz]:
        """Lists the WACZ files of a crawl."""
        await self.shards()
        return await self._home.wacz_list(crawl)

    async def commit(self, crawl: Bytes) -> Committed:
        """Merges a finished crawl into the index: commits it in all shards, in the home shard last.

        After an error, call it again: the result then covers the whole commit, except for the counts of a shard whose
        reply was lost. If several clients commit the same crawl at the same time, no result counts a hash twice, but
        hashes that another client has committed may be missing.
        """
        crawl = data(crawl)
        shards = await self.shards()
        marks = await self._home._run(Command(["HGETALL", self._marks], _pairs))
        earlier = {field: value for field, value in marks.items() if field.split(b" ", 2)[2:] == [crawl]}
        for field in earlier:
            doing = field.split(b" ")[0]
            if doing != b"commit":
                what = doing.decode()
                raise Error(
                    f"SHARDED a {what} of crawl {crawl!r} is running or was interrupted between two shards; repeat the "
                    f"{what} to finish it first",
                    "SHARDED",
                )
        # Each mark also includes the counts of earlier runs, and runs at the same time may have counted the same hashes.
        counts = [tuple(map(int, value.split(b" ")[1:])) for value in earlier.values()]
        before = Committed(*max((pair for pair in counts if len(pair) == 2), key=sum, default=(0, 0)))
        mark = b"commit %s %s" % (os.urandom(8).hex().encode(), crawl)
        since = int(time.time())
        await self._home._run(Command(["HSET", self._marks, mark, since], same))
        replies = await self._home.send([dedupe.commit(shard.prefix, crawl) for shard in shards[1:]])
        done = [reply for reply in replies if not isinstance(reply, Error)]
        failed = [reply for reply in replies if isinstance(reply, Error) and not isinstance(reply, NoCrawl)]
        new, known = (before[at] + sum(reply[at] for reply in done) for at in range(2))
        if (new, known) != before:
            await self._home._run(Command(["HSET", self._marks, mark, b"%d %d %d" % (since, new, known)], same))
        if failed:
            if not done:
                await self._home._run(Command(["HDEL", self._marks, mark], same))
            raise failed[0]
        try:
            home = await self._home.commit(crawl)
        except NoCrawl:
            asked = [Command(["SISMEMBER", shard.prefix + b"allcrawls", crawl], bool) for shard in shards[1:]]
            if not any(_checked(await self._home.send(asked))):
                await self._home._run(Command(["HDEL", self._marks, mark, *earlier], same))
                raise
            # The crawl has no records in the home shard and no WACZ files.
            await self._home._run(Command(["SADD", self._home.prefix + b"uncommittedcrawls", crawl], same))
            home = await self._home.commit(crawl)
        await self._home._run(Command(["HDEL", self._marks, mark, *earlier], same))
        return Committed(new + home.new, known + home.known)

    async def stats(self) -> IndexStats:
        """Returns the sums of the figures of all shards."""
        shards = _checked(await self._each(dedupe.stats))
        running: Any = await self._each(lambda prefix: Command(["SMEMBERS", prefix + b"uncommittedcrawls"], set))
        storages = {one.storage for one in shards}
        summed: IndexStats = _sum(shards)._replace(
            storage=storages.pop() if len(storages) == 1 else "packing",
            crawls=shards[0].crawls,
            uncommitted=len(set().union(*_checked(running))),
            removed_crawls=shards[0].removed_crawls,
            removed_crawl_size=shards[0].removed_crawl_size,
        )
        return summed

    async def crawl_stats(self, crawl: Bytes) -> CrawlStats:
        """Returns the sums of the figures of one crawl over all shards; ``requires`` counts each shard."""
        replies = await self._each(lambda prefix: dedupe.crawl_stats(prefix, crawl))
        shards = _checked([reply for reply in replies if not isinstance(reply, NoCrawl)])
        if not shards:
            raise replies[0]
        # The home shard commits last.
        home = replies[0]
        state = "uncommitted" if isinstance(home, NoCrawl) else home.state
        if state == "committed" and any(one.state != "committed" for one in shards):
            state = "continued"
        summed: CrawlStats = _sum(shards)._replace(state=state)
        return summed


def _pairs(reply: Any) -> Dict[bytes, bytes]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def _checked(replies: List[Any]) -> List[Any]:
    """Raises the first error."""
    for reply in replies:
        if isinstance(reply, Error):
            raise reply
    return replies


def _sum(shards: List[Any]) -> Any:
    """Adds the integers of named tuples of the same class; takes other values from the first."""
    first = shards[0]
    return type(first)(
        *(sum(values) if isinstance(values[0], int) else values[0] for values in zip(*shards)),
    )
