"""A plug-in that deduplicates the captures of warcprox with a Crawlspace index, which many crawlers can share.

Run ``warcprox --dedup-db-file /dev/null --plugin warcprox_crawlspace.Dedup``. The settings are environment variables;
the README lists them.
"""

from .index import Settings
from .processors import Dedup

__all__ = ["Dedup", "Settings"]
