"""Runs the examples of the documentation with coredis, which supports only RESP3; see said.py. PORT and
CLUSTER have the same meaning as in connect.py, and ROUTED as in connect.js."""

import asyncio
import os
import sys

import coredis
from coredis.typing import Key
from said import read, said


def whole(error):
    """Returns an error as the server sent it: coredis removes the word ERR."""
    word = str(error).split(" ", 1)[0]
    return Exception(str(error) if word.isupper() else f"ERR {error}")


async def main():
    address = ("127.0.0.1", int(os.environ["PORT"]))
    client = coredis.RedisCluster(*address) if "CLUSTER" in os.environ else coredis.Redis(*address)
    async with client:
        print("coredis", coredis.__version__, flush=True)
        for line in sys.stdin:
            name, (key, *words) = read(line)
            # In a cluster, mark the key, which is the first argument of all commands of the module.
            key = Key(key) if "ROUTED" in os.environ else key
            call = client.create_request(name.encode(), key, *words, callback=lambda reply, **_: reply)
            try:
                reply = await call
            except coredis.exceptions.ResponseError as error:
                reply = whole(error)
            except coredis.exceptions.RedisClusterError as error:
                reply = error
            print(said(reply), flush=True)


asyncio.run(main())
