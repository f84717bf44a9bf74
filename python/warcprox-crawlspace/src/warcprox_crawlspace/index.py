"""Settings, and the connection to the indexes in Redis."""

import datetime
import logging
import os
import re
import time
import uuid

import crawlspace
import redis

#: Name of the bucket of requests that name no bucket, as in warcprox.
UNSPECIFIED = "__unspecified__"

#: Seconds between two attempts while the memory of the server is full.
PAUSE = 1

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

    def __init__(self, prefix, record):
        self.prefix = prefix
        self.record = record
        self.url = record.url
        self.date = iso(record.date)


class Server:
    """A connection to the server. It waits while the server restarts."""

    def __init__(self, settings):
        self.settings = settings
        # The commands name their own prefixes.
        self.index = crawlspace.Dedupe(settings.url, "")
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

        Returns a value for each command, which may be a ``crawlspace.Error``. Raises ``Unreachable``.
        """
        begun = time.monotonic()
        deadline = (self._silent or begun) + self.settings.timeout
        while True:
            try:
                replies = self.index.send(commands, patience=max(0, deadline - time.monotonic()))
                full = next((reply for reply in replies if isinstance(reply, crawlspace.Oom)), None)
            except (redis.RedisError, OSError) as error:
                self._silent = self._silent or begun
                raise Unreachable(f"{self._shown()}: {error}") from error
            if full is None:
                self._silent = None
                return replies
            if time.monotonic() > deadline:
                raise Unreachable(f"{self._shown()}: {full}")
            time.sleep(PAUSE)

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
