"""The request queue."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from crawlee import Request
from crawlee.storage_clients._base import RequestQueueClient
from crawlee.storage_clients.models import (
    AddRequestsResponse,
    ProcessedRequest,
    RequestQueueMetadata,
    UnprocessedRequest,
)
from crawlspace import Error, NoChg, Stale
from crawlspace.aio import Frontier
from crawlspace.commands import Command, chg, data
from crawlspace.connection import FAILURES

if TYPE_CHECKING:
    from crawlspace.replies import ExecutionInfo, Lease
    from typing_extensions import Self

LOG = logging.getLogger("crawlee_crawlspace")

#: Depth of requests that are added to the end of the queue. Each batch that is added to the
#: forefront has a smaller depth.
END = 2**31
#: Milliseconds for which a fetch waits in the server for a host whose pause is about to end.
WAIT = 500
#: Maximum number of requests that are added in one step.
BATCH = 1000
#: Limits of the server: bytes of a key, of a URL or payload, and of a group.
KEY, TEXT, GROUP = 64, 65_536, 1024
#: Status with which the server lengthens the pause of a host that refuses its sessions.
REFUSED = 429

#: Before Crawlee had `is_finished`, its `is_empty` also counted requests in progress.
HAS_IS_FINISHED = hasattr(RequestQueueClient, "is_finished")


def host_of(request: Request) -> str:
    """Returns the host of a request."""
    return urlsplit(request.url).hostname or "?"


def key_of(unique_key: str) -> bytes:
    """Returns the key by which the frontier identifies a request: its unique key, or the hash of a long one."""
    key = unique_key.encode()
    return key if 0 < len(key) <= KEY else hashlib.sha256(key).hexdigest().encode()


def payload_of(request: Request) -> bytes:
    payload = request.model_dump_json(by_alias=True, exclude_defaults=True).encode()
    if len(payload) > TEXT:
        raise ValueError(f"its JSON has {len(payload)} bytes, but the frontier accepts at most {TEXT}")
    return payload


def rotations_of(request: Request) -> int:
    """Returns how often sites have refused the sessions of a request."""
    # Do not use `request.session_rotation_count`, which adds an empty record to the user data of the request.
    record = getattr(request.user_data, "crawlee_data", None)
    return record.session_rotation_count or 0 if record else 0


class Settings(NamedTuple):
    """Settings of all queues of a storage client; times in milliseconds."""

    pause: int
    factor: float
    parallel: int
    lease: int
    group: Callable[[Request], str]


class Held:
    """A request in progress, and its lease."""

    def __init__(self, lease: Lease, request: Request) -> None:
        self.chg = lease.chg
        self.token = lease.token
        self.request = request
        self.rotations = rotations_of(request)
        self.begun = self.renewed = time.monotonic()
        #: False when another client may have the request.
        self.is_valid = True


class CrawlspaceRequestQueueClient(RequestQueueClient):
    """A request queue in a packed frontier. The queue is an execution of the frontier, and each host is a group."""

    def __init__(
        self, frontier: Frontier, settings: Settings, execution: str, name: str | None, described: dict[str, str]
    ) -> None:
        self._frontier = frontier
        self._settings = settings
        self._execution = execution.encode()
        self._name = name
        self._created_at = datetime.fromtimestamp(float(described["created"]), timezone.utc)
        self._accessed_at = self._modified_at = datetime.now(timezone.utc)
        self._had_multiple_clients = int(described["clients"]) > 1
        # A request may be here twice if this client lost its lease and fetched it again.
        self._held: dict[str, list[Held]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._limited: set[bytes] = set()

    @classmethod
    async def open(
        cls, frontier: Frontier, settings: Settings, *, id: str | None, name: str | None, alias: str | None
    ) -> Self:
        """Opens a queue, or creates it. The id of a queue is the name of its execution."""
        if sum(word is not None for word in (id, name, alias)) > 1:
            raise ValueError("only one of id, name and alias can be specified")
        execution = id or name or f"alias:{alias or 'default'}"
        key = described_at(frontier, execution)
        if id is not None and not await ask(frontier, "EXISTS", key):
            raise ValueError(f"request queue with id {id!r} does not exist")
        _, _, described = await ask_all(
            frontier,
            ("HSETNX", key, "created", repr(time.time())),
            ("HINCRBY", key, "clients", 1),
            ("HGETALL", key),
        )
        words = [word.decode() for word in (sum(described.items(), ()) if isinstance(described, dict) else described)]
        name = None if execution.startswith("alias:") else execution
        return cls(frontier, settings, execution, name, dict(zip(words[::2], words[1::2])))

    async def get_metadata(self) -> RequestQueueMetadata:
        """Returns the counts of the whole queue. ``accessed_at`` and ``modified_at`` are those of this process."""
        counts = await self._frontier.count(self._execution)
        return RequestQueueMetadata(
            id=self._execution.decode(),
            name=self._name,
            created_at=self._created_at,
            accessed_at=self._accessed_at,
            modified_at=self._modified_at,
            had_multiple_clients=self._had_multiple_clients,
            handled_request_count=counts.done + counts.given_up,
            pending_request_count=counts.queued + counts.leased,
            total_request_count=counts.known,
        )

    async def drop(self) -> None:
        await self.purge()
        execution = self._execution.decode()
        await ask(self._frontier, "DEL", described_at(self._frontier, execution), front_of(self._frontier, execution))

    async def purge(self) -> None:
        self._touch(modified=True)
        await self._frontier.drop(self._execution)
        await self._frontier.forget(self._execution)
        # Without this, the server would refuse new requests until the leases of the dropped requests have expired.
        await self._frontier.resume(execution=self._execution)
        await self.give_back()

    async def add_batch_of_requests(
        self, requests: Sequence[Request], *, forefront: bool = False
    ) -> AddRequestsResponse:
        self._touch(modified=True)
        response = AddRequestsResponse(processed_requests=[], unprocessed_requests=[])
        depth = END
        if forefront and requests:
            execution = self._execution.decode()
            depth -= await ask(self._frontier, "INCR", front_of(self._frontier, execution))
        for start in range(0, len(requests), BATCH):
            await self._add(requests[start : start + BATCH], depth, response)
        return response

    async def _add(self, requests: Sequence[Request], depth: int, response: AddRequestsResponse) -> None:
        batch: list[tuple[Request, chg.Item]] = []
        for request in requests:
            try:
                batch.append((request, self._item(request, depth)))
            except ValueError as error:
                LOG.error("%s cannot be queued: %s", request.unique_key, error)
                response.unprocessed_requests.append(unprocessed(request))
        items = [item for _, item in batch]
        prefix = self._frontier.prefix
        commands: list[Command[Any]] = []
        if self._settings.parallel > 1:
            groups = {data(item.chg) for item in items} - self._limited
            commands += (chg.limit(prefix, group, parallel=self._settings.parallel) for group in groups)
            self._limited |= groups
        commands.append(chg.discover(prefix, self._execution, items))
        *_, entered = checked(await self._frontier.send(commands))
        known = [request for (request, _), count in zip(batch, entered) if count == 0]
        handled = await self._handled(known)
        for (request, _), count in zip(batch, entered):
            if count is None:
                response.unprocessed_requests.append(unprocessed(request))
                continue
            response.processed_requests.append(
                ProcessedRequest(
                    unique_key=request.unique_key,
                    was_already_present=count == 0,
                    was_already_handled=request.unique_key in handled,
                )
            )

    def _item(self, request: Request, depth: int) -> chg.Item:
        group, url = self._settings.group(request).encode(), request.url.encode()
        if not 0 < len(group) <= GROUP:
            raise ValueError(f"its group has {len(group)} bytes, but the frontier accepts 1 to {GROUP}")
        if len(url) > TEXT:
            raise ValueError(f"its URL has {len(url)} bytes, but the frontier accepts at most {TEXT}")
        return chg.Item(group, url, 0, depth, key_of(request.unique_key), payload_of(request))

    async def _handled(self, requests: list[Request]) -> set[str]:
        """Returns the unique keys of the requests that are handled."""
        rows = await self._frontier.known(self._execution, [key_of(request.unique_key) for request in requests])
        return {request.unique_key for request, row in zip(requests, rows) if row and row.state in ENDED}

    async def get_request(self, unique_key: str) -> Request | None:
        """Returns a request of the queue.

        A request that is in progress in this client is returned unchanged. The frontier does not return the data of
        other requests: for a known key that is a URL, the result is a new request for this URL, otherwise None.
        """
        self._touch()
        if held := self._held.get(unique_key):
            return held[-1].request
        [row] = await self._frontier.known(self._execution, [key_of(unique_key)])
        if row is None or not unique_key.startswith(("http://", "https://")):
            return None
        handled_at = datetime.fromtimestamp(row.changed / 1000, timezone.utc) if row.state in ENDED else None
        return Request.from_url(unique_key, unique_key=unique_key, handled_at=handled_at)

    async def fetch_next_request(self) -> Request | None:
        """Returns the next request whose host may be contacted, or None if there is none now.

        If a pause ends within half a second, the call waits for it.
        """
        self._touch()
        request = await self._take(None)
        if request is not None:
            return request
        if not HAS_IS_FINISHED:
            return await self._take(WAIT) if (await self._figures()).uris else None
        if self._waiter is not None:
            return None
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        try:
            return await self._take(WAIT) if await self._is_due() else None
        finally:
            self._waiter = None
            waiter.set_result(None)

    async def _take(self, block: int | None) -> Request | None:
        leases = await self._frontier.next(
            lease=self._settings.lease, block=block, uris=1, execution=self._execution
        )
        for lease in leases:
            for uri in lease.uris or ():
                request = Request.model_validate_json(uri.payload or b"")
                self._held.setdefault(request.unique_key, []).append(Held(lease, request))
                if self._keeper is None or self._keeper.done():
                    self._keeper = asyncio.create_task(self._keep(), name="crawlspace leases")
                return request
        return None

    async def mark_request_as_handled(self, request: Request) -> ProcessedRequest | None:
        held = self._end(request)
        if held is None or not await self._release(held, request, done=self._execution):
            return None
        if request.handled_at is None:
            request.handled_at = datetime.now(timezone.utc)
        return processed(request, is_handled=True)

    async def reclaim_request(self, request: Request, *, forefront: bool = False) -> ProcessedRequest | None:
        fate: dict[str, Any] = {}
        try:
            fate["payload"] = payload_of(request)
        except ValueError as error:
            LOG.error("%s is tried again as it was before: %s", request.unique_key, error)
        held = self._end(request)
        # With the earliest possible time, the request comes before all requests that were added to the end.
        at = 0 if forefront else round(time.time() * 1000)
        if held is None or not await self._release(held, request, retry=at, **fate):
            return None
        return processed(request, is_handled=False)

    async def is_empty(self) -> bool:
        """Returns True if no request can be fetched now: the hosts of all queued requests are busy or in a pause."""
        self._touch()
        if not HAS_IS_FINISHED:
            return await self.is_finished()
        if self._waiter is not None:
            # Another task is waiting for the next host. Until that task has a host, this task would not get one either.
            await asyncio.wait([self._waiter], timeout=WAIT / 1000)
        return not await self._is_due()

    async def is_finished(self) -> bool:
        """Returns True if no request is queued, and none is in progress in any client."""
        return (await self._figures()).uris == 0

    async def give_back(self) -> None:
        """Puts the requests that this client has in progress back into the queue."""
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        held, self._held = self._held, {}
        for one in (one for ones in held.values() for one in ones if one.is_valid):
            await self._release(one, None)

    def _touch(self, modified: bool = False) -> None:
        self._accessed_at = datetime.now(timezone.utc)
        if modified:
            self._modified_at = self._accessed_at

    def _end(self, request: Request) -> Held | None:
        """Removes and returns the lease of a request; None if this client has none."""
        self._touch(modified=True)
        held = self._held.get(request.unique_key, [])
        # The identity of the object distinguishes an earlier fetch of the same request from the current one.
        mine = next((one for one in held if one.request is request), held[-1] if held else None)
        if mine is None:
            LOG.warning("%s is not in progress in this client", request.unique_key)
            return None
        held.remove(mine)
        if not held:
            del self._held[request.unique_key]
        return mine if mine.is_valid else None

    async def _release(self, held: Held, request: Request | None, **fate: Any) -> bool:
        """Ends a lease and begins the pause of the host; False if the lease was lost before."""
        facts: dict[str, Any] = {}
        if request is not None:
            if rotations_of(request) > held.rotations:
                facts["status"] = REFUSED
            elif getattr(request.state, "name", None) == "DONE":
                facts["status"] = 200
        try:
            await self._frontier.release(
                held.chg,
                held.token,
                elapsed=round((time.monotonic() - held.begun) * 1000),
                factor=self._settings.factor,
                min=self._settings.pause,
                **facts,
                **fate,
            )
        except (Stale, NoChg) as error:
            LOG.warning("%s: %s", held.request.unique_key, error)
            return False
        return True

    def _leases(self) -> Iterator[Held]:
        return (one for ones in self._held.values() for one in ones if one.is_valid)

    async def _keep(self) -> None:
        """Extends the leases of the requests in progress before half of their time is over."""
        lease = self._settings.lease
        while self._held:
            await asyncio.sleep(lease / 4000)
            now = time.monotonic()
            old = [held for held in self._leases() if now - held.renewed > lease / 4000]
            commands = [chg.extend(self._frontier.prefix, held.chg, held.token, lease) for held in old]
            try:
                replies = await self._frontier.send(commands)
            except FAILURES as error:
                LOG.warning("leases cannot be extended: %s", error)
                continue
            for held, reply in zip(old, replies):
                if isinstance(reply, (Stale, NoChg)):
                    # The end of the request may have overtaken the extension.
                    held.is_valid = False
                    if held in self._leases_of(held.request):
                        LOG.warning("%s: %s", held.request.unique_key, reply)
                elif isinstance(reply, Error):
                    LOG.warning("%s: %s", held.request.unique_key, reply)
                else:
                    held.renewed = now

    def _leases_of(self, request: Request) -> list[Held]:
        return self._held.get(request.unique_key, [])

    async def _figures(self) -> ExecutionInfo:
        return await self._frontier.execution_info(self._execution)

    async def _is_due(self) -> bool:
        """Returns True if a request can be fetched now or within the time for which a fetch waits."""
        info: ExecutionInfo
        now: int
        info, now = checked(
            await self._frontier.send(
                [
                    chg.execution_info(self._frontier.prefix, self._execution),
                    Command(["TIME"], lambda reply: int(reply[0]) * 1000 + int(reply[1]) // 1000),
                ]
            )
        )
        return info.uris > 0 and 0 <= info.next_due_ms <= now + WAIT


#: States in which a request is not fetched again.
ENDED = ("done", "given-up")


def processed(request: Request, *, is_handled: bool) -> ProcessedRequest:
    return ProcessedRequest(
        unique_key=request.unique_key, was_already_present=True, was_already_handled=is_handled
    )


def unprocessed(request: Request) -> UnprocessedRequest:
    return UnprocessedRequest(unique_key=request.unique_key, url=request.url, method=request.method)


def described_at(frontier: Frontier, execution: str) -> bytes:
    """Returns the key with the description of a queue."""
    return frontier.prefix + f"crawlee:{execution}".encode()


def front_of(frontier: Frontier, execution: str) -> bytes:
    """Returns the key with the number of batches that were added to the forefront of a queue."""
    return frontier.prefix + f"crawlee-front:{execution}".encode()


def checked(replies: list[Any]) -> list[Any]:
    """Raises the first error of several replies."""
    for reply in replies:
        if isinstance(reply, Error):
            raise reply
    return replies


async def ask_all(frontier: Frontier, *commands: tuple[Any, ...]) -> list[Any]:
    return checked(await frontier.send([Command(list(words), lambda reply: reply) for words in commands]))


async def ask(frontier: Frontier, *words: Any) -> Any:
    [reply] = await ask_all(frontier, words)
    return reply
