"""The storage client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from crawlee import Request
from crawlee.configuration import Configuration
from crawlee.storage_clients import FileSystemStorageClient, StorageClient
from crawlspace import Plain
from crawlspace.aio import Frontier

from ._queue import CrawlspaceRequestQueueClient, Settings, host_of

if TYPE_CHECKING:
    from crawlee.storage_clients._base import DatasetClient, KeyValueStoreClient
    from redis.asyncio import Redis
    from typing_extensions import Self

LOG = logging.getLogger("crawlee_crawlspace")


def milliseconds(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)


class CrawlspaceStorageClient(StorageClient):
    """A storage client whose request queues are in a packed frontier, which any number of processes share.

    Datasets and key-value stores are those of another storage client.
    """

    def __init__(
        self,
        redis_url: str | Redis,
        prefix: str,
        *,
        pause: timedelta = timedelta(seconds=1),
        factor: float = 0,
        parallel: int = 1,
        lease: timedelta = timedelta(minutes=1),
        group: Callable[[Request], str] = host_of,
        purge_on_start: bool = False,
        storage_client: StorageClient | None = None,
    ) -> None:
        """Creates a storage client. It connects when the first queue is opened.

        Args:
            redis_url: URL of a Redis or Valkey server with the Crawlspace module, or a client of redis-py.
            prefix: Prefix of the frontier, such as ``{web}:``.
            pause: Shortest pause of a host between the end of a request and the start of the next one.
            factor: Makes the pause at least this multiple of the duration of the request.
            parallel: Number of requests of a host that may be in progress at a time, in all processes.
            lease: Time after which the requests of a dead process return to the queue. Leases of a live process are
                extended for as long as their requests are in progress.
            group: Returns the host of a request, or another name that all requests with a common pause share.
            purge_on_start: Purges unnamed queues when they are opened, if Crawlee's own setting is on. The
                default keeps them, because other processes may be working on them.
            storage_client: Stores datasets and key-value stores; the file system by default.
        """
        if not 1 <= parallel <= 1000:
            raise ValueError(f"parallel must be between 1 and 1000 (got {parallel})")
        self._frontier = Frontier(redis_url, prefix)
        self._settings = Settings(milliseconds(pause), factor, parallel, milliseconds(lease), group)
        self._purge_on_start = purge_on_start
        self._storage = FileSystemStorageClient() if storage_client is None else storage_client
        self._server_key: Hashable = redis_url if isinstance(redis_url, str) else id(redis_url)
        self._queues: list[CrawlspaceRequestQueueClient] = []

    def get_storage_client_cache_key(self, configuration: Configuration) -> Hashable:
        rest = self._storage.get_storage_client_cache_key(configuration)
        return (type(self).__name__, self._server_key, self._frontier.prefix, rest)

    async def create_dataset_client(self, **options: Any) -> DatasetClient:
        return await self._storage.create_dataset_client(**options)

    async def create_kvs_client(self, **options: Any) -> KeyValueStoreClient:
        return await self._storage.create_kvs_client(**options)

    async def create_rq_client(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        alias: str | None = None,
        configuration: Configuration | None = None,
    ) -> CrawlspaceRequestQueueClient:
        await self._prepare()
        queue = await CrawlspaceRequestQueueClient.open(
            self._frontier, self._settings, id=id, name=name, alias=alias
        )
        configuration = configuration or Configuration.get_global_configuration()
        if self._purge_on_start:
            await self._purge_if_needed(queue, configuration)
        metadata = await queue.get_metadata()
        if metadata.handled_request_count:
            LOG.info(
                "request queue %r: %d of %d requests are handled already",
                metadata.id,
                metadata.handled_request_count,
                metadata.total_request_count,
            )
        self._queues.append(queue)
        return queue

    def get_rate_limit_errors(self) -> dict[int, int]:
        return self._storage.get_rate_limit_errors()

    async def _prepare(self) -> None:
        """Creates the frontier if there is none. Raises ``Plain`` for a plain frontier, without changing it."""
        try:
            await self._frontier.count(b"default")
        except Plain:
            info = await self._frontier.info()
            groups = info.groups_waiting + info.groups_ready + info.groups_busy + info.groups_idle
            if groups + info.uris + info.token > 0 or info.storage != "plain":
                raise
            await self._frontier.pack()

    async def aclose(self) -> None:
        """Returns the requests in progress to their queues and closes the connections."""
        for queue in self._queues:
            await queue.give_back()
        self._queues.clear()
        await self._frontier.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
