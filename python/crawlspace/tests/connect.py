"""Clients of every kind for the server at PORT and the cluster at CLUSTER_PORT, whose data the tests delete."""

import asyncio
import os
from typing import Any, Callable, Dict, List

import redis
import redis.asyncio

import crawlspace
from crawlspace import aio

PORT = int(os.environ["PORT"])
CLUSTER_PORT = int(os.environ.get("CLUSTER_PORT", 0))
URL = f"redis://127.0.0.1:{PORT}"
#: The server in both protocols, with the timeouts of a program that waits.
PROTOCOLS = (2, 3)


def plain(protocol: int = 3, **options: Any) -> Any:
    return redis.Redis(port=PORT, protocol=protocol, **options)


def empty() -> None:
    """Deletes all data."""
    plain().flushall()
    if CLUSTER_PORT:
        cluster = redis.RedisCluster("127.0.0.1", CLUSTER_PORT)
        cluster.flushall(target_nodes=redis.RedisCluster.PRIMARIES)
        cluster.close()


def kinds() -> Dict[str, Callable[[], Any]]:
    """Returns functions that make a client of redis-py, by name. Names with ``aio`` are for asyncio."""
    found: Dict[str, Callable[[], Any]] = {}
    for protocol in PROTOCOLS:
        options = {"protocol": protocol}
        found[f"RESP{protocol}"] = lambda options=options: redis.Redis(port=PORT, **options)
        found[f"aio RESP{protocol}"] = lambda options=options: redis.asyncio.Redis(port=PORT, **options)
        if CLUSTER_PORT:
            place = {"host": "127.0.0.1", "port": CLUSTER_PORT}
            found[f"cluster RESP{protocol}"] = lambda options=options: redis.RedisCluster(**place, **options)
            if protocol == 3:
                found["aio cluster"] = lambda options=options: redis.asyncio.RedisCluster(**place, **options)
    found["URL"] = lambda: URL
    found["aio URL"] = lambda: URL
    return found


def run_all(kind: str, calls: List[Callable[[Any], Any]], client: Any) -> List[Any]:
    """Makes calls one after another, with asyncio if the kind is for it, and closes the client."""
    if not kind.startswith("aio"):
        values = [call(client) for call in calls]
        client.close()
        client._server.close()
        return values

    async def run() -> List[Any]:
        values = [await call(client) for call in calls]
        await client.aclose()
        await getattr(client._server, "aclose", client._server.close)()
        return values

    return asyncio.run(run())


def family(kind: str, name: str) -> Any:
    """Returns the class ``Frontier``, ``Dedupe`` or ``Tags`` for a kind of client."""
    return getattr(aio if kind.startswith("aio") else crawlspace, name)
