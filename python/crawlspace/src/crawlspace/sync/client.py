"""Sends commands: repeats them after failures, splits long waits, and numbers calls."""

from __future__ import annotations

import functools
import logging
import random
import time
from time import sleep
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, TypeVar, Union

import redis as errors
from redis import Redis, RedisCluster
from redis.retry import Retry
from redis.backoff import NoBackoff

from ..commands import Bytes, Command, Word, data
from ..connection import CAUSES, CONNECT, FAILURES, FINAL, JOB, MAX_PAUSE, MOVED, PASSING, PAUSE, REPLY, Writers, check
from ..connection import longest_wait, refused, unsendable
from ..errors import Error, error_of

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec, Self

    P = ParamSpec("P")

T = TypeVar("T")

LOG = logging.getLogger("crawlspace")


def call(
    build: Callable[Concatenate[bytes, P], Command[T]],
) -> "Callable[Concatenate[Any, P], T]":
    """Makes a method of a command."""

    def method(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        value: T = self._run(build(self.prefix, *arguments, **options))
        return value

    functools.update_wrapper(method, build)
    return method


class Client:
    """A client of one index, frontier or tag space.

    ``server`` is a URL (``redis://``, ``rediss://`` or ``unix://``) or a client of redis-py without
    ``decode_responses``. Calls that are safe to repeat are repeated for up to ``patience`` seconds while the server
    cannot be reached, restarts or fails over; 0 never repeats a call.
    """

    def __init__(
        self, server: "Union[str, Redis, RedisCluster]", prefix: Bytes, *, patience: float = 60.0
    ) -> None:
        #: Prefix of the index or frontier, or key of the tag space.
        self.prefix = data(prefix)
        #: Simulated time of a frontier, in milliseconds; None for the clock of the server.
        self.now: Optional[int] = None
        self.patience = patience
        self._url = server if isinstance(server, str) else None
        self._server: Any = server if self._url is None else self._connect(REPLY)
        check(self._server, (Redis, RedisCluster))
        self._patient: Any = None
        self._longest_wait = longest_wait(self._server)
        self._writers = Writers()

    def _connect(self, timeout: float) -> Any:
        return Redis.from_url(
            str(self._url),
            socket_timeout=timeout,
            socket_connect_timeout=CONNECT,
            # redis-py must not retry, because this class does.
            retry=Retry(NoBackoff(), 0),
        )

    def close(self) -> None:
        """Closes the connections that were made from a URL. A client that was passed stays open."""
        if self._url is not None:
            for server in (self._server, self._patient):
                if server is not None:
                    getattr(server, "close", server.close)()

    def __reduce__(self) -> Any:
        if self._url is None:
            name = type(self).__name__
            raise TypeError(f"a {name} with a client of redis-py cannot be pickled: create it from a URL")
        return functools.partial(type(self), patience=self.patience), (self._url, self.prefix), {"now": self.now}

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, commands: Iterable[Command[Any]], *, patience: Optional[float] = None) -> List[Any]:
        """Sends several commands in one round trip, and returns a value or an ``Error`` for each.

        The module ``crawlspace.commands`` makes the commands, which may have other prefixes. If the connection breaks
        and all of them are safe to repeat, all are sent again.
        """
        batch = list(commands)
        numbered = [self._writers.number(command) for command in batch]
        words = [
            words if command.wait is None else self._bounded(words, int(words[-1]))
            for command, (words, _) in zip(batch, numbered)
            if words
        ]
        try:
            replies = iter(
                self._deliver(
                    lambda: self._send_together(words),
                    all(command.is_repeatable for command in batch),
                    self.patience if patience is None else patience,
                )
            )
        finally:
            for _, writer in numbered:
                self._writers.free(writer)
        values = []
        for command in batch:
            reply = next(replies) if command.words else None
            values.append(reply if isinstance(reply, Error) else command.parse(reply))
        return values

    def _send_together(self, batch: List[List[Word]]) -> List[Any]:
        if not batch:
            return []
        pipeline = self._server.pipeline(transaction=False)
        for words in batch:
            pipeline.execute_command(*words)
        try:
            replies: List[Any] = pipeline.execute(raise_on_error=False)
        except errors.DataError as cause:
            raise next((error for error in map(unsendable, batch) if "argument" in str(error)), cause)
        for position, reply in enumerate(replies):
            if isinstance(reply, errors.ResponseError):
                replies[position] = error = error_of(reply)
                if error.code in PASSING:
                    raise error
            elif isinstance(reply, Exception):
                raise reply
        return replies

    def _bounded(self, words: List[Word], block: int) -> List[Word]:
        """Returns the words of a command that waits for this time, or for less, so that the client does not time out."""
        longest = self._longest_wait
        if longest is not None and not 0 < block <= longest:
            block = longest
        return words if words[-1] == block else [*words[:-1], block]

    def _run(self, command: Command[T], patience: Optional[float] = None) -> T:
        """Sends a command, repeats it after failures, and returns the value of the reply.

        A wait in the server that is too long for the client is split: the client may time out otherwise, and a
        repeated release does not wait for the next lease.
        """
        if not command.words:
            return command.parse(None)
        if self.now is not None:
            command.words[2:2] = (b"NOW", self.now)
            command.seq_at += 2 if command.seq_at else 0
        wait, begun = command.wait, 0.0
        block: Any = 0
        if wait is not None:
            begun, block = time.monotonic(), command.words[-1]
        left = block
        server = self._server
        if command.is_job and self._url is not None:
            if self._patient is None:
                self._patient = self._connect(JOB)
            server = self._patient
        while True:
            words, writer = command.words, None
            if wait is not None:
                words = self._bounded(words, left)
            if command.seq_at:
                words, writer = self._writers.number(command)
            try:
                reply = server.execute_command(*words)
            except CAUSES as cause:
                again = functools.partial(server.execute_command, *words)
                limit = self.patience if patience is None else patience
                reply = self._deliver(again, command.is_repeatable, limit, cause)
            except errors.DataError as cause:
                raise unsendable(words) from cause
            finally:
                if writer is not None:
                    self._writers.free(writer)
            if wait is None or not wait.is_unmet(reply):
                return command.parse(reply)
            if block:
                left = block - int((time.monotonic() - begun) * 1000)
                if left <= 1:
                    return command.parse(reply)
            if wait.then is not None:
                command = wait.then(reply)
                wait = command.wait or wait

    def _deliver(
        self,
        attempt: Callable[[], Any],
        is_repeatable: bool,
        patience: float,
        failed: Optional[Exception] = None,
    ) -> Any:
        """Retries a call until it succeeds or ``patience`` is over. ``failed`` is the error of an earlier attempt."""
        begun: Optional[float] = None
        pause = PAUSE
        while True:
            try:
                if failed is not None:
                    cause, failed = failed, None
                    raise cause
                return attempt()
            except errors.ResponseError as cause:
                failure: Exception = cause if isinstance(cause, Error) else error_of(cause)
                code = getattr(failure, "code", "")
                if not is_repeatable or code not in PASSING:
                    raise failure from cause
            except (AttributeError, *FAILURES) as cause:
                failure, code = cause, ""
                if isinstance(cause, AttributeError):
                    failure = errors.ConnectionError(f"another call has closed the connection ({cause})")
                if isinstance(cause, FINAL):
                    raise refused(cause) from cause
                if not is_repeatable:
                    raise failure
            now = time.monotonic()
            if begun is None:
                begun = now
                if patience > pause:
                    LOG.warning("%s; trying again for up to %g seconds", failure, patience)
            if now + pause - begun > patience:
                raise failure
            if code in MOVED and isinstance(self._server, Redis):
                # A new connection may lead to the new master.
                self._server.connection_pool.disconnect(inuse_connections=False)
            sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, MAX_PAUSE)
