"""The indexes in Redis: what is asked of them, and what is added."""

import datetime
import logging
import os
import re
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

#: The bucket of a request that names none, as warcprox calls it.
UNSPECIFIED = "__unspecified__"

#: Seconds within which a connection stands, and within which the server answers.
CONNECT, ANSWER = 5, 20

#: Seconds between two attempts to reach the server: the first pause, and the longest.
PAUSE, MAX_PAUSE = 0.1, 2

#: Code words of replies of a server that cannot do it now, and can soon.
PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "OOM", "UNBLOCKED")

LOG = logging.getLogger("warcprox_crawlspace")


class Settings:
    """How the index is reached, from environment variables."""

    def __init__(self, environment=os.environ):
        self.url = environment.get("CRAWLSPACE_URL") or "redis://127.0.0.1:6379/0"
        self.crawl = environment.get("CRAWLSPACE_CRAWL") or ""
        if not self.crawl:
            raise ValueError("CRAWLSPACE_CRAWL is missing: the crawl that records are added for")
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
            raise ValueError(f"{name}={text}: seconds from 0.001 to 86400 are expected")
        return seconds

    def prefix_of(self, bucket):
        """The prefix of the index of a bucket."""
        return self.prefix.replace("*", bucket)


class Unreachable(Exception):
    """The server did not answer for as long as captures may wait."""


class Original:
    """The record that a payload was first stored with."""

    def __init__(self, prefix, reply):
        self.prefix = prefix
        self.crawl, self.wacz_index, date, self.url, self.size = reply[:5]
        self.date = iso(date)


class Server:
    """A connection that waits for a server that restarts."""

    def __init__(self, settings):
        self.settings = settings
        self.redis = redis.Redis.from_url(
            settings.url,
            socket_connect_timeout=CONNECT,
            socket_timeout=ANSWER,
            # What may be sent again is decided here.
            retry=Retry(NoBackoff(), 0),
        )
        #: Names this process to the server, which keeps the number of its last call.
        self.writer = f"warcprox-{uuid.uuid4().hex}"
        self.number = 0
        #: When the server was first found not to answer, since it answered last.
        self._silent = None

    def next_number(self):
        """The number of the next call whose retry must not count."""
        self.number += 1
        return self.number

    def send(self, commands):
        """Sends commands in one round trip, and again until the server answers. All of them may arrive twice.

        Returns a reply for each, which may be a ``redis.ResponseError``. Raises ``Unreachable``.
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
    """A date of a record, in one of the forms that indexes have, as warcprox writes it; ``None`` for anything else."""
    text = date.decode("latin1")
    form = "%Y-%m-%dT%H:%M:%SZ"
    try:
        if text[:14].isdigit():
            moment = datetime.datetime.strptime(text[:14], "%Y%m%d%H%M%S")
        else:
            # Before Python 3.11 a fraction has three or six digits.
            text = re.sub(r"\.\d+", "", text).replace("Z", "+00:00")
            moment = datetime.datetime.fromisoformat(text)
            if moment.tzinfo:
                moment = moment.astimezone(datetime.timezone.utc)
    except ValueError:
        return None
    return moment.strftime(form).encode("ascii")


def digits(moment):
    """A moment as 14 digits."""
    return moment.strftime("%Y%m%d%H%M%S")
