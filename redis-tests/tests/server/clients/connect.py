"""Creates a client from environment variables: PORT; PROTOCOL (2 or 3); CLUSTER (any value: connect to a
cluster); DEFAULTS (any value: use the default protocol and timeout of redis-py)."""

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
        # A blocking command has no timeout, and the client does not retry it.
        options["socket_timeout"] = None
    options.update(more)
    if "CLUSTER" in os.environ:
        return redis.RedisCluster(**options)
    return redis.Redis(retry=Retry(NoBackoff(), 0), **options)


def code(error):
    """Returns the code word of an error. redis-py removes code words for which it has an exception class."""
    return error.status_code or str(error).split(" ", 1)[0]


def whole(error):
    """Returns an error as the server sent it."""
    word = getattr(error, "status_code", None)
    return f"{word} {error}" if word else str(error)
