"""Fixtures with which Crawlee's own tests of request queues use the storage client; see conftest.py of Crawlee."""

import os
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
import redis
from crawlee import service_locator
from crawlee.storage_clients import MemoryStorageClient

from crawlee_crawlspace import CrawlspaceStorageClient

PORT = int(os.environ["PORT"])
#: Names of tests that cannot pass.
EXCLUDED = os.environ.get("EXCLUDED", "").split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item.name not in EXCLUDED]


@pytest.fixture(autouse=True)
def isolated() -> None:
    service_locator._configuration = None
    service_locator._event_manager = None
    service_locator._storage_client = None
    service_locator.storage_instance_manager.clear_cache()
    redis.Redis(port=PORT).flushall()


@pytest.fixture
async def storage_client() -> AsyncGenerator[CrawlspaceStorageClient, None]:
    storage = CrawlspaceStorageClient(
        f"redis://127.0.0.1:{PORT}",
        "{test}:",
        # The tests fetch several pages of a host at a time, without a pause.
        pause=timedelta(0),
        parallel=1000,
        purge_on_start=True,
        storage_client=MemoryStorageClient(),
    )
    async with storage:
        service_locator.set_storage_client(storage)
        yield storage
