"""Settings of the package, and those of Scrapy that it takes over."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings


class Settings(NamedTuple):
    """Settings of a crawl. Times are in milliseconds."""

    url: str
    prefix: str
    #: Id of the crawl; if it is empty, the name of the spider is used.
    execution: str
    #: Lifetime of a lease; after this time, the leases of a dead process expire.
    lease: int
    #: Time for which a process waits for the first URL of a crawl.
    patience: int
    pickled: bool
    #: Pause after a fetch; and the pauses of slots that have a different pause.
    delay: int
    delays: Dict[str, int]
    #: Number of parallel fetches of slots that allow several.
    parallel: Dict[str, int]

    @classmethod
    def read(cls, settings: BaseSettings) -> Settings:
        """Reads the settings of a crawler."""
        serializer = settings.get("CRAWLSPACE_SERIALIZER", "json")
        if serializer not in ("json", "pickle"):
            raise NotConfigured(f"CRAWLSPACE_SERIALIZER is {serializer!r}: use 'json' or 'pickle'")
        slots = settings.getdict("DOWNLOAD_SLOTS")
        return cls(
            settings.get("CRAWLSPACE_URL", "redis://127.0.0.1:6379/0"),
            settings.get("CRAWLSPACE_PREFIX", "{scrapy}:"),
            str(settings.get("CRAWLSPACE_EXECUTION", "")),
            max(1_000, round(settings.getfloat("CRAWLSPACE_LEASE", 60) * 1000)),
            round(settings.getfloat("CRAWLSPACE_PATIENCE", 10) * 1000),
            serializer == "pickle",
            round(settings.getfloat("DOWNLOAD_DELAY") * 1000),
            {name: round(float(slot["delay"]) * 1000) for name, slot in slots.items() if "delay" in slot},
            {name: _parallel(name, slot["concurrency"]) for name, slot in slots.items() if "concurrency" in slot},
        )

    def pause(self, group: str) -> int:
        """Returns the pause of a group."""
        return self.delays.get(group, self.delay)


def _parallel(slot: str, concurrency: Any) -> int:
    parallel = int(concurrency)
    if not 1 <= parallel <= 1000:
        raise NotConfigured(f"the concurrency of {slot!r} in DOWNLOAD_SLOTS is {parallel}: use 1 to 1000")
    return parallel
