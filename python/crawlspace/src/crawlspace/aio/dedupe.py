"""A dedupe index, and the context manager that stores each payload once."""

from __future__ import annotations

from typing import Optional

from ..commands import Bytes, Command, data, dedupe
from ..connection import FAILURES, PARTING
from ..errors import Error, Stale
from ..replies import Claim, Record
from .client import Client, call


_CLOSED = "claims work only inside the block of: with index.capture(…) as capture"


class OpenCapture:
    """A payload whose record is about to be written, as a context manager; see ``Dedupe.capture``."""

    def __init__(self, index: "Dedupe", crawl: bytes, hash: bytes, claim: Command[Claim]) -> None:
        #: The original record of the payload; None if the payload is new and must be stored.
        self.original: Optional[Record] = None
        #: The WACZ file that holds the original, with ``with_wacz``.
        self.filename: Optional[bytes] = None
        self.crawl = crawl
        self.hash = hash
        self._index = index
        self._claim = claim
        self._token: Optional[int] = None
        self._is_open = False

    async def __aenter__(self) -> "OpenCapture":
        claim = await self._index._run(self._claim)
        self.original, self.filename, self._token = claim.original, claim.filename, claim.token
        self._is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        if self._token is None:
            return
        try:
            # A claim that cannot be released expires.
            await self._index._run(dedupe.unclaim(self._index.prefix, self.hash, self._token), PARTING)
        except (Error, *FAILURES):
            pass
        self._token = None

    async def add(self, date: Bytes, url: Bytes, size: int, wacz_index: int = 0) -> bool:
        """Adds the ``response`` record that was written. Returns False if the crawl had this hash already.

        If the claim has expired and another worker holds it now, the record is added without a claim, because it is
        already in the file.
        """
        if not self._is_open:
            raise RuntimeError(_CLOSED)
        index, records = self._index, [(self.hash, date, url, size, wacz_index)]
        token, self._token = self._token, None
        if token is not None:
            try:
                added = await index._run(dedupe.add(index.prefix, self.crawl, records, token=token))
                return added > 0
            except Stale:
                pass
            except BaseException:
                self._token = token
                raise
        return bool(await index.add(self.crawl, records))

    async def revisit(self, size: int, *, ref: Optional[Bytes] = None, no_ref: bool = False) -> None:
        """Counts the ``revisit`` record that was written for the original."""
        if not self._is_open:
            raise RuntimeError(_CLOSED)
        if self.original is None:
            raise ValueError("this payload has no original: store it, and call add")
        records = [(self.hash, size, self.original)]
        await self._index._run(dedupe.revisit(self._index.prefix, self.crawl, records, ref=ref, no_ref=no_ref))


class Dedupe(Client):
    """A dedupe index under a prefix. Each method is a command; its docstring names the command."""

    def capture(
        self, crawl: Bytes, hash: Bytes, *, px: int = 60_000, block: Optional[int] = 0, with_wacz: bool = False
    ) -> OpenCapture:
        """Returns a context manager that holds a claim on a payload while its record is written.

        If the body finds an ``original``, it writes a ``revisit`` record and calls ``revisit``; otherwise it stores
        the payload and calls ``add``. If it does neither, or raises, the claim is released. ``px`` is the lifetime of
        the claim, in case the process dies. If another worker stores the payload, the call waits for up to ``block``
        milliseconds, 0 without a limit and None not at all; then the payload counts as new.
        """
        crawl, hash = data(crawl), data(hash)
        claim = dedupe.claim(self.prefix, crawl, hash, px, block=block, with_wacz=with_wacz)
        return OpenCapture(self, crawl, hash, claim)

    add = call(dedupe.add)
    begin = call(dedupe.begin)
    cancel = call(dedupe.cancel)
    check = call(dedupe.check)
    claim = call(dedupe.claim)
    commit = call(dedupe.commit)
    crawls = call(dedupe.crawls)
    lookup = call(dedupe.lookup)
    lookup_with_wacz = call(dedupe.lookup_with_wacz)
    lookup_text = call(dedupe.lookup_text)
    lookup_url = call(dedupe.lookup_url)
    pack = call(dedupe.pack)
    profile = call(dedupe.profile)
    remove = call(dedupe.remove)
    repair = call(dedupe.repair)
    required_by = call(dedupe.required_by)
    requires = call(dedupe.requires)
    requires_json = call(dedupe.requires_json)
    retain = call(dedupe.retain)
    revisit = call(dedupe.revisit)
    stats = call(dedupe.stats)
    crawl_stats = call(dedupe.crawl_stats)
    unclaim = call(dedupe.unclaim)
    unpack = call(dedupe.unpack)
    urls = call(dedupe.urls)
    wacz_close = call(dedupe.wacz_close)
    wacz_list = call(dedupe.wacz_list)
    wacz_open = call(dedupe.wacz_open)
