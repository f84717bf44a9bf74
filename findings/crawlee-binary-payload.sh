#!/usr/bin/env bash
# crawlee 1.11.0 (PyPI) accepts requests with a binary body, but its request queue on disk cannot store them.
#
# `Request.from_url(…, method="POST", payload=…)` takes bytes. The file-system storage, which is the default one,
# writes a request as JSON, in which pydantic can only represent a payload of valid UTF-8. A crawl that sends
# compressed or other binary bodies, such as recorded POST requests of an archive, stops with
# PydanticSerializationError when it adds the request. The memory storage accepts the same request.
#
# Seen with crawlee 1.11.0 and pydantic 2.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'crawlee==1.11.0'
venv/bin/python - <<'PYTHON'
import asyncio

from crawlee import Request
from crawlee.storage_clients import FileSystemStorageClient, MemoryStorageClient
from crawlee.storages import RequestQueue


async def add(client, payload):
    queue = await RequestQueue.open(name="queue", storage_client=client)
    request = Request.from_url("https://example.com/", method="POST", payload=payload, unique_key=repr(payload))
    try:
        await queue.add_request(request)
        return "stored"
    except Exception as error:
        return type(error).__name__


async def main():
    seen = {
        (type(client).__name__, kind): await add(client, payload)
        for client in (MemoryStorageClient(), FileSystemStorageClient())
        for kind, payload in (("text", b"a=b"), ("binary", b"\x1f\x8b\xff"))
    }
    for (client, kind), result in seen.items():
        print(f"{client}, {kind} payload: {result}")
    assert seen == {
        ("MemoryStorageClient", "text"): "stored",
        ("MemoryStorageClient", "binary"): "stored",
        ("FileSystemStorageClient", "text"): "stored",
        ("FileSystemStorageClient", "binary"): "PydanticSerializationError",
    }, seen


asyncio.run(main())
PYTHON
