"""Dedupe for warcprox in a Crawlspace index that many crawlers share.

``warcprox --dedup-db-file /dev/null --plugin warcprox_crawlspace.Dedup``; the settings are environment variables, which
the README lists.
"""

from .index import Settings
from .processors import Dedup

__all__ = ["Dedup", "Settings"]
