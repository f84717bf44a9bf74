"""A client as the environment asks for it: PORT, PROTOCOL (2 or 3), CLUSTER (any value, for a cluster),
DEFAULTS (any value: the protocol and the time limit that redis-py has by itself)."""

import os

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def connect(**more):
    options = dict(
        host="127.0.0.1",
        port=int(os.environ["PORT"]),
    )
    if "DEFAULTS" not in os.environ:
        options["protocol"] = int(os.environ["PROTOCOL"])
        # A command that waits takes as long as it takes, and is not sent again by itself.
        options["socket_timeout"] = None
    options.update(more)
    if "CLUSTER" in os.environ:
        return redis.RedisCluster(**options)
    return redis.Redis(retry=Retry(NoBackoff(), 0), **options)


def code(error):
    """The code word of an error. redis-py takes off those that it has a class for."""
    return error.status_code or str(error).split(" ", 1)[0]


def whole(error):
    """An error as the server sent it."""
    word = getattr(error, "status_code", None)
    return f"{word} {error}" if word else str(error)
