"""Settings, errors and writers that the blocking and the asyncio clients share."""

from __future__ import annotations

import inspect
import itertools
import os
import uuid
import weakref
from typing import Any, Deque, List, Optional, Sequence

import redis
from redis.exceptions import AuthenticationError, AuthorizationError, ClusterError, RedisClusterException

from .commands import Command, Word

#: Timeouts of a reply and of a job, in seconds. They apply to clients that this package makes from a URL.
REPLY, JOB = 20.0, 6 * 3600.0
#: Timeout of a connection in seconds.
CONNECT = 5.0
#: Pauses between two attempts in seconds: the first one and the longest one.
PAUSE, MAX_PAUSE = 0.05, 2.0
#: Seconds for which a worker that stops tries to give back its lease or claim.
PARTING = 2.0

#: Errors of redis-py after which a retry may succeed.
FAILURES = (redis.ConnectionError, redis.TimeoutError, ClusterError, RedisClusterException, OSError)
#: The subset of ``FAILURES`` after which a retry cannot succeed.
FINAL = (AuthenticationError, AuthorizationError)
#: All errors of redis-py that this package handles. After a failure, a cluster client closes connections that other tasks
#: are about to use, whose calls then raise AttributeError.
CAUSES = (redis.ResponseError, AttributeError, *FAILURES)
#: Code words after which a retry may succeed, because the server restarts or changes its role, or a slot moves.
PASSING = frozenset(("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED", "BUSY"))
#: Code words after which other connections of the pool lead to the wrong server, too.
MOVED = frozenset(("READONLY", "MASTERDOWN", "UNBLOCKED"))


def settings(server: Any) -> Any:
    """Returns the settings of the connections of a client."""
    for holder in (getattr(server, "connection_pool", None), server, getattr(server, "nodes_manager", None)):
        found = getattr(holder, "connection_kwargs", None)
        if found is not None:
            return found
    return {}


def check(server: Any, kinds: Any) -> None:
    """Refuses a client that this package cannot use."""
    if not isinstance(server, kinds):
        names = " or ".join(f"{kind.__module__.rsplit('.', 1)[0]}.{kind.__name__}" for kind in kinds)
        raise TypeError(f"expected a URL, or a client of the class {names}, not {type(server).__name__}")
    if settings(server).get("decode_responses"):
        raise ValueError("this client has decode_responses=True: use one without it, because replies need not be text")


def unsendable(words: Sequence[Any]) -> TypeError:
    """Returns the error for a command that redis-py cannot send."""
    for position, word in enumerate(words):
        if isinstance(word, bool) or not isinstance(word, (bytes, float, int, str)):
            return TypeError(f"argument {position} of {words[0]} is {word!r}: expected bytes, str or an integer")
    return TypeError(f"redis-py cannot send {words[0]}")


def refused(error: Exception) -> Exception:
    """Returns the error for a user or password that the server refuses."""
    return type(error)(f"{error}; check the user and the password (in a URL: redis://USER:PASSWORD@HOST:PORT)")


def longest_wait(server: Any) -> Optional[int]:
    """Returns how many milliseconds a command may wait, so that the client does not time out; None without a limit."""
    default = inspect.signature(redis.Redis.__init__).parameters["socket_timeout"].default
    timeout = settings(server).get("socket_timeout", default)
    return None if timeout is None else max(1, int(timeout * 500))


class Writer:
    """A sequence of numbered calls, so that a repeated call counts once. It is used for one call at a time."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex.encode()
        self.numbers = itertools.count(1)


_WRITERS: "weakref.WeakSet[Writers]" = weakref.WeakSet()


def _begin_process() -> None:
    """Drops the writers of the parent after a fork: the server would ignore calls of two processes with one number."""
    for writers in _WRITERS:
        writers._free.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_process)


class Writers:
    """A pool of writers: one for each call in progress, so that the numbers of a writer increase in order."""

    def __init__(self) -> None:
        self._free: Deque[Writer] = Deque()
        _WRITERS.add(self)

    def number(self, command: Command[Any]) -> "tuple[List[Word], Optional[Writer]]":
        """Returns the words of the command with its number, and the writer, which `free` takes back."""
        at = command.seq_at
        if not at:
            return command.words, None
        try:
            writer = self._free.pop()
        except IndexError:
            writer = Writer()
        words = command.words.copy()
        words[at:at] = (b"SEQ", writer.name, next(writer.numbers))
        return words, writer

    def free(self, writer: Optional[Writer]) -> None:
        """Takes a writer back when its call has ended."""
        if writer is not None:
            self._free.append(writer)
