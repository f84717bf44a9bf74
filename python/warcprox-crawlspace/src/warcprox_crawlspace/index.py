"""Settings, and the connection to the indexes in Redis."""

import datetime
import logging
import os
import re
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

#: Name of the bucket of requests that name no bucket, as in warcprox.
UNSPECIFIED = "__unspecified__"

#: Timeouts in seconds: to connect, and to receive a reply.
CONNECT, ANSWER = 5, 20

#: Pauses in seconds between two attempts to reach the server: the first one and the longest one.
PAUSE, MAX_PAUSE = 0.1, 2

#: Error codes after which a retry may succeed soon.
PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "UNBLOCKED")

LOG = logging.getLogger("warcprox_crawlspace")


class Settings:
    """The settings, read from environment variables."""

    def __init__(self, environment=os.environ):
        self.url = environment.get("CRAWLSPACE_URL") or "redis://127.0.0.1:6379/0"
        self.crawl = environment.get("CRAWLSPACE_CRAWL") or ""
        if not self.crawl:
            raise ValueError("CRAWLSPACE_CRAWL is not set: set it to the id of the crawl to which records are added")
        self.prefix = environment.get("CRAWLSPACE_PREFIX") or "{*}:"
        self.claim = self._seconds(environment, "CRAWLSPACE_CLAIM", 60)
        self.timeout = self._seconds(environment, "CRAWLSPACE_TIMEOUT", 120)

    @staticmethod
    def _seconds(environment, name, otherwise):
        text = environment.get(name) or str(otherwise)
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0
        if not 0.001 <= seconds <= 86400:
            raise ValueError(f"invalid {name}={text}: expected a number of seconds from 0.001 to 86400")
        return seconds

    def prefix_of(self, bucket):
        """Returns the prefix of the index of a bucket."""
        return self.prefix.replace("*", bucket)


class Unreachable(Exception):
    """The server has not answered for the time that captures may wait."""


class Original:
    """The original record of a payload."""

    def __init__(self, prefix, reply):
        self.prefix = prefix
        self.crawl, self.wacz_index, date, self.url, self.size = reply[:5]
        self.date = iso(date)


class Server:
    """A connection to the server. It waits while the server restarts."""

    def __init__(self, settings):
        self.settings = settings
        self.redis = redis.Redis.from_url(
            settings.url,
            socket_connect_timeout=CONNECT,
            socket_timeout=ANSWER,
            # `send` retries instead.
            retry=Retry(NoBackoff(), 0),
        )
        #: Name of this process as a writer; the server stores the number of its last call.
        self.writer = f"warcprox-{uuid.uuid4().hex}"
        self.number = 0
        #: Time of the first failed attempt since the server last answered; None while it answers.
        self._silent = None

    def next_number(self):
        """Returns the number of the next call, so that a repeated call counts once."""
        self.number += 1
        return self.number

    def send(self, commands):
        """Sends commands in one round trip, and repeats this until the server answers. Each command may arrive twice.

        Returns a reply for each command, which may be a ``redis.ResponseError``. Raises ``Unreachable``.
        """
        pause = PAUSE
        while True:
            try:
                replies = self._send_once(commands)
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                now = time.monotonic()
                if self._silent is None:
                    LOG.warning("%s: %s; captures wait for it", self._shown(), error)
                    self._silent = now
                if now - self._silent > self.settings.timeout:
                    raise Unreachable(f"{self._shown()}: {error}") from error
                time.sleep(pause)
                pause = min(pause * 2, MAX_PAUSE)
                continue
            if self._silent is not None:
                LOG.warning("%s answers again", self._shown())
                self._silent = None
            return replies

    def _send_once(self, commands):
        pipeline = self.redis.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        replies = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, redis.ConnectionError):
                raise reply
            if isinstance(reply, redis.ResponseError) and str(reply).startswith(PASSING):
                raise redis.ConnectionError(str(reply))
        return replies

    def _shown(self):
        return re.sub(r"//[^@/]*@", "//", self.settings.url)


def iso(date):
    """Converts the date of a record to the form that warcprox writes. Returns ``None`` for an unknown form."""
    text = date.decode("latin1")
    form = "%Y-%m-%dT%H:%M:%SZ"
    try:
        if text[:14].isdigit():
            moment = datetime.datetime.strptime(text[:14], "%Y%m%d%H%M%S")
        else:
            # Before Python 3.11, only fractions of three or six digits can be parsed.
            text = re.sub(r"\.\d+", "", text).replace("Z", "+00:00")
            moment = datetime.datetime.fromisoformat(text)
            if moment.tzinfo:
                moment = moment.astimezone(datetime.timezone.utc)
    except ValueError:
        return None
    return moment.strftime(form).encode("ascii")


def digits(moment):
    """Formats a time as 14 digits."""
    return moment.strftime("%Y%m%d%H%M%S")
