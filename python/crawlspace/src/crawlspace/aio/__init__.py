"""Clients for asyncio, with the same calls."""

from .dedupe import Dedupe, OpenCapture
from .frontier import Facts, Frontier, HeldLease, Leases
from .sharded import ShardedIndex
from .tags import Tags

__all__ = ["Dedupe", "Facts", "Frontier", "HeldLease", "Leases", "OpenCapture", "ShardedIndex", "Tags"]
