"""Leases for requests that do not come from the scheduler, such as those of media pipelines.

Each of them queues a URI in an execution that only this process uses, and waits until the URI is leased. So it shares
the pauses of its host with all pages of all processes.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Dict, Optional

from crawlspace import Error
from crawlspace.aio import Frontier
from crawlspace.connection import FAILURES
from crawlspace.replies import Lease

LOG = logging.getLogger(__name__)

#: Milliseconds for which the task waits in the server, and seconds after which it repeats a call that failed.
BLOCK, RETRY = 500, 1.0


class Visits:
    """Requests from outside the scheduler that wait for a lease of their host."""

    def __init__(self, frontier: Frontier, execution: bytes, lease: int) -> None:
        self._frontier = frontier
        #: The execution of this process.
        self.execution = execution + b" (visits of " + uuid.uuid4().hex.encode() + b")"
        self._lease = lease
        self._waiting: "Dict[bytes, asyncio.Future[Lease]]" = {}
        self._number = 0
        self._task: "Optional[asyncio.Task[None]]" = None

    async def begin(self, group: str) -> Lease:
        """Waits until the host may be contacted."""
        self._number += 1
        uri = b"visit:%d" % self._number
        waiting = self._waiting[uri] = asyncio.get_running_loop().create_future()
        try:
            await self._frontier.add_uri(self.execution, [(group, uri)])
            if self._task is None or self._task.done():
                self._task = asyncio.ensure_future(self._take())
            lease: Lease = await waiting
            return lease
        finally:
            del self._waiting[uri]

    async def _take(self) -> None:
        frontier = self._frontier
        while self._waiting:
            try:
                leases = await frontier.next(
                    count=len(self._waiting), block=BLOCK, lease=self._lease, execution=self.execution
                )
                for lease in leases:
                    uris = lease.uris or []
                    waiting = self._waiting.get(uris[0].uri) if uris else None
                    if waiting is not None and not waiting.done():
                        waiting.set_result(lease)
                    else:  # it has stopped waiting
                        await frontier.release(lease.chg, lease.token, delay=0, done=self.execution)
            except (Error, *FAILURES) as error:
                LOG.error("%s", error)
                await asyncio.sleep(RETRY)

    def cancel(self) -> None:
        """Ends the visits that wait."""
        for waiting in self._waiting.values():
            waiting.cancel()

    async def close(self) -> None:
        """Removes the execution of this process and its remaining URIs."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=2 * BLOCK / 1000)
            self._task.cancel()
            await self._frontier.drop(self.execution)
