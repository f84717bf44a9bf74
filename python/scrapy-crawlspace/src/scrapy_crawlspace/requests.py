"""Requests as the frontier stores them: group, order, key and payload."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from email.utils import parsedate_to_datetime
from time import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from crawlspace import Item
from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.request import request_from_dict

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.http import Response

#: Key of ``meta`` in requests that were sent: the slot that this package set, or an empty string if the spider
# set one.
MARK = "crawlspace_slot"
#: Keys of ``meta`` that describe a fetch, not a request.
TRANSIENT = frozenset((MARK, "download_latency"))
#: Maximum length of a URL and of a payload that the frontier stores.
LONGEST = 65_536
#: Order of a request of priority 0 and depth 0. A priority that is higher by 1 equals a depth that is lower by 1000.
ORDER, PRIORITY = 10**9, 1_000

_PORTS = {"http": 80, "https": 443}
_DEFAULTS = {name: getattr(Request("data:,"), name) for name in Request.attributes}


class Unstorable(ValueError):
    """A request that the frontier cannot store."""


def group_of(request: Request) -> str:
    """Returns the group of a request: its ``download_slot``, or the host and the port unless it is the default one.

    URLs without a host, such as ``data:`` URLs, are in the group of their scheme.
    """
    slot = _slot(request)
    if slot is not None:
        return slot
    url = urlparse_cached(request)
    host = url.hostname or url.scheme
    port = url.port
    return host if port is None or port == _PORTS.get(url.scheme) else f"{host}:{port}"


def _slot(request: Request) -> Optional[str]:
    """Returns the slot that the spider has chosen."""
    slot = request.meta.get("download_slot")
    return None if not slot or slot == request.meta.get(MARK) else str(slot)


def mark(request: Request, group: str) -> None:
    """Marks a request that is sent, and makes Scrapy use a slot of its group."""
    if _slot(request) is None:
        request.meta[MARK] = request.meta["download_slot"] = group
    else:
        request.meta[MARK] = ""


def retry_after(response: Response) -> Optional[int]:
    """Returns the milliseconds of the header Retry-After."""
    header = response.headers.get(b"Retry-After")
    if header is None:
        return None
    text = header.decode("latin-1").strip()
    try:
        return round(min(float(text), 1e9) * 1000) if text.isdigit() else _until(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until(date: str) -> int:
    return round((parsedate_to_datetime(date).timestamp() - time()) * 1000)


class Codec:
    """Converts requests of a spider. Payloads are JSON; with ``pickled``, they may hold any Python objects."""

    def __init__(self, spider: Spider, fingerprint: Callable[[Request], bytes], pickled: bool) -> None:
        self._spider = spider
        self._fingerprint = fingerprint
        self._pickled = pickled
        self._names: Dict[Any, str] = {}

    def item(self, request: Request) -> Item:
        """Returns the item that queues a request. Raises ``Unstorable``."""
        meta = request.meta
        uri = request.url.encode()
        payload = self._payload(request)
        if len(uri) > LONGEST or len(payload) > LONGEST:
            raise Unstorable(f"its URL of {len(uri)} bytes or its payload of {len(payload)} bytes is over 64 KiB")
        order = ORDER - PRIORITY * request.priority + min(int(meta.get("depth", 0)), PRIORITY - 1)
        try:
            group = group_of(request)[:255].encode("utf-8", "surrogateescape")
        except ValueError as error:
            raise Unstorable(f"its host or slot is invalid: {error}") from error
        return Item(group, uri, 0, min(max(order, 0), 2**32 - 1), self._key(request), payload)

    def _key(self, request: Request) -> bytes:
        key = self._fingerprint(request)
        if not key:
            raise Unstorable("its fingerprint is empty")
        if len(key) > 40:
            key = hashlib.sha1(key).digest()
        is_start = request.meta.get("is_start_request") and MARK not in request.meta
        # Every process sends the start requests with dont_filter. They must be fetched only once nevertheless.
        return key + os.urandom(12) if request.dont_filter and not is_start else key

    def _payload(self, request: Request) -> bytes:
        fields = self._fields(request)
        if self._pickled:
            try:
                return pickle.dumps(fields, protocol=4)
            except Exception as error:
                raise Unstorable(f"pickle cannot store it: {error}") from error
        for name, value in fields.items():
            fields[name] = _plain(value)
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")

    def _fields(self, request: Request) -> Dict[str, Any]:
        """Returns the fields of ``Request.to_dict`` that differ from the defaults, without the URL."""
        kind = type(request)
        if kind.to_dict is not Request.to_dict:
            fields = request.to_dict(spider=self._spider)
        else:
            fields = {name: getattr(request, name) for name in kind.attributes}
            fields["callback"] = self._name(request.callback)
            fields["errback"] = self._name(request.errback)
            fields["headers"] = dict(request.headers)
            if kind is not Request:
                fields["_class"] = f"{kind.__module__}.{kind.__name__}"
        del fields["url"]
        missing = object()
        fields = {name: value for name, value in fields.items() if value != _DEFAULTS.get(name, missing)}
        meta = {name: value for name, value in request.meta.items() if name not in TRANSIENT}
        if _slot(request) is None:
            meta.pop("download_slot", None)
        if meta:
            fields["meta"] = meta
        else:
            fields.pop("meta", None)
        return fields

    def _name(self, method: Any) -> Any:
        """Returns the name of a method of the spider."""
        if method is None or not callable(method):
            return method
        function = getattr(method, "__func__", None)
        name = self._names.get(function) if function is not None else None
        if name is None:
            name = getattr(function, "__name__", "")
            if getattr(getattr(self._spider, name, None), "__func__", self) is not function:
                try:
                    name = Request("data:,", method).to_dict(spider=self._spider)["callback"]
                except ValueError as error:
                    raise Unstorable(str(error)) from error
            self._names[function] = name
        return name

    def request(self, uri: bytes, payload: Optional[bytes]) -> Request:
        """Returns the request of a lease. Raises ``ValueError`` for a payload that this codec does not read."""
        fields = self._read(payload) if payload else {}
        fields["url"] = uri.decode()
        return request_from_dict(fields, spider=self._spider)

    def _read(self, payload: bytes) -> Dict[str, Any]:
        if payload[:1] == b"{":
            fields = json.loads(payload.decode("utf-8", "surrogatepass"))
            if b'"$' in payload:
                fields = _restore(fields)
        elif self._pickled:
            fields = pickle.loads(payload)
        else:
            raise ValueError("its payload is not JSON: set CRAWLSPACE_SERIALIZER = 'pickle' if it is pickled")
        if not isinstance(fields, dict):
            raise ValueError("its payload is not a JSON object")
        return fields


def _plain(value: Any) -> Any:
    """Returns a value as JSON can hold it.

    Bytes, tuples, sets and dicts with keys that are not strings become objects like ``{"$bytes": …}``.
    """
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return value
    if kind is list:
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        if all(type(name) is str and name[:1] != "$" for name in value):
            return {name: _plain(one) for name, one in value.items()}
        return {"$dict": [[_plain(name), _plain(one)] for name, one in value.items()]}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": value.decode("latin-1")}
    if kind is tuple:
        return {"$tuple": [_plain(one) for one in value]}
    if kind in (set, frozenset):
        return {"$set": [_plain(one) for one in value]}
    raise Unstorable(f"JSON cannot store a {kind.__name__}: set CRAWLSPACE_SERIALIZER = 'pickle', or pass plain values")


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, one),) = value.items()
        if name == "$bytes":
            return one.encode("latin-1")
        if name == "$tuple":
            return tuple(_restore(one))
        if name == "$set":
            return set(_restore(one))
        if name == "$dict":
            return {_restore(key): _restore(item) for key, item in one}
    return {name: _restore(one) for name, one in value.items()}
