"""Errors of the server, by code word."""

from __future__ import annotations

import re
from typing import Dict, Type

import redis


class Error(redis.ResponseError):
    """An error reply. Its subclasses are named after the code words; other code words raise this class."""

    #: Code word, such as ``STALE``.
    code: str = "ERR"

    def __init__(self, message: str = "", code: str = "") -> None:
        super().__init__(message)
        if code:
            self.code = code


class BadCrawl(Error):
    """The id of the crawl is empty, too long, or collides with a key name."""

    code = "BADCRAWL"


class BadField(Error):
    """A field has an invalid name, or these lines do not have it."""

    code = "BADFIELD"


class BadFormat(Error):
    """A newer version of the module wrote the index."""

    code = "BADFORMAT"


class BadHash(Error):
    """A hash is too short, too long, or has control bytes."""

    code = "BADHASH"


class BadLine(Error):
    """A line is not of the expected format."""

    code = "BADLINE"


class BadPrefix(Error):
    """The prefix is too long, or has no hash tag in a cluster."""

    code = "BADPREFIX"


class BadRe(Error):
    """A regular expression is malformed or too large."""

    code = "BADRE"


class Busy(Error):
    """The server runs a script, or a command of the module called this one."""

    code = "BUSY"


class Canceled(Error):
    """The crawl was canceled."""

    code = "CANCELED"


class ClusterDown(Error):
    """The cluster does not serve this slot."""

    code = "CLUSTERDOWN"


class Committed(Error):
    """The crawl is committed and has no changes since."""

    code = "COMMITTED"


class Cycle(Error):
    """Tags or access points would refer to each other in a cycle."""

    code = "CYCLE"


class HasCrawls(Error):
    """The index already has crawls."""

    code = "HASCRAWLS"


class Known(Error):
    """The command contradicts the URLs that the frontier remembers."""

    code = "KNOWN"


class Leased(Error):
    """A worker holds a lease of the group."""

    code = "LEASED"


class MasterDown(Error):
    """The replica has lost its master."""

    code = "MASTERDOWN"


class Mixed(Error):
    """A plain key exists under the name of a marker of a packed frontier."""

    code = "MIXED"


class NoChg(Error):
    """The group does not exist."""

    code = "NOCHG"


class NoCrawl(Error):
    """The crawl does not exist."""

    code = "NOCRAWL"


class NoHash(Error):
    """The hash is neither in the index nor in the crawl."""

    code = "NOHASH"


class NoPerm(Error):
    """The user may not use a key or a command."""

    code = "NOPERM"


class NoPoint(Error):
    """No access point has this name."""

    code = "NOPOINT"


class NoStage(Error):
    """No staged copy exists, or it holds a different number of ids."""

    code = "NOSTAGE"


class NoUrls(Error):
    """The index by URL does not exist or is incomplete."""

    code = "NOURLS"


class Oom(Error):
    """The server is at ``maxmemory``."""

    code = "OOM"


class Plain(Error):
    """The command needs a packed frontier."""

    code = "PLAIN"


class Purging(Error):
    """A purge by Browsertrix is running or was interrupted."""

    code = "PURGING"


class ReadOnly(Error):
    """The server is a replica."""

    code = "READONLY"


class Removing(Error):
    """The crawl is being removed or canceled."""

    code = "REMOVING"


class Stale(Error):
    """The lease, claim or number is no longer valid; nothing was changed."""

    code = "STALE"


class Syntax(Error):
    """An expression, filter or template cannot be parsed."""

    code = "SYNTAX"


class TooBig(Error):
    """A call or a value exceeds a limit."""

    code = "TOOBIG"


class TryAgain(Error):
    """The slot is moving to another node."""

    code = "TRYAGAIN"


class Unblocked(Error):
    """A wait ended because the role or the data of the server changed."""

    code = "UNBLOCKED"


class Uncommitted(Error):
    """The crawl was never committed."""

    code = "UNCOMMITTED"


class WrongType(Error):
    """A key holds another type."""

    code = "WRONGTYPE"


#: Classes by code word.
BY_CODE: Dict[str, Type[Error]] = {subclass.code: subclass for subclass in Error.__subclasses__()}

#: Code words that redis-py removes from the message, by its class. Newer versions keep them in ``status_code``.
_REMOVED = {
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "NoPermissionError": "NOPERM",
    "TryAgainError": "TRYAGAIN",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
}


#: Reply of a server without the module.
_UNKNOWN = re.compile(r"(?:ERR )?unknown command ['`]((?:CHG|DEDUPE|TAGS)\.\w+)")


def error_of(error: redis.ResponseError) -> Error:
    """Returns the error of this package for an error of redis-py."""
    message = str(error)
    unknown = _UNKNOWN.match(message)
    if unknown:
        message = (
            f"ERR the server does not know {unknown[1]}: load the module, libcrawlspace.so, in a current version, with "
            "loadmodule in redis.conf"
        )
    first = message.split(" ", 1)[0]
    code = getattr(error, "status_code", None) or _REMOVED.get(type(error).__name__)
    if code is None:
        # Versions without `status_code` remove ERR from a message, which may then begin with an option in upper case.
        code = first if hasattr(error, "status_code") or first in BY_CODE else "ERR"
    if first != code:
        message = f"{code} {message}"
    return BY_CODE.get(code, Error)(message, code)
