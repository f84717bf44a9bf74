"""Prefixes of the shards of an index, and the shard of a hash: the same rule as in the library for Rust.

The rule determines where existing indexes have their data, so it never changes; docs/guide/client.md describes it.
"""

from __future__ import annotations

import base64
import binascii
import itertools
from typing import List, Optional

from .commands import Bytes, data

#: Number of slots of a cluster.
SLOTS = 16384
#: Maximum number of shards.
MAX_SHARDS = 1024
#: Maximum length of the name of a sharded index in bytes.
NAME_BYTES = 256

_MASK = (1 << 64) - 1
_LABELS = ((b"sha256:", 32), (b"sha-256:", 32), (b"sha1:", 20), (b"sha-1:", 20), (b"md5:", 16))
_HEX = frozenset(b"0123456789abcdefABCDEF")
_BASE32 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def prefixes(name: Bytes, shards: int) -> List[bytes]:
    """Returns the prefixes of all shards of the index with this name, the home shard first."""
    name = data(name)
    if not 1 <= len(name) <= NAME_BYTES or b"{" in name or b"}" in name:
        raise ValueError(f"the name of an index must have 1 to {NAME_BYTES} bytes and no braces")
    if not 1 <= shards <= MAX_SHARDS:
        raise ValueError(f"the number of shards must be from 1 to {MAX_SHARDS}")
    found = [b"{%s-0}:" % name]
    home = _slot(b"%s-0" % name)
    for shard in range(1, shards):
        first, end = shard * SLOTS // shards, (shard + 1) * SLOTS // shards
        for salt in itertools.count():
            tag = b"%s-%d.%d" % (name, shard, salt)
            if first <= (_slot(tag) - home) % SLOTS < end:
                found.append(b"{%s}:" % tag)
                break
    return found


def shard_of(hash: Bytes, shards: int) -> int:
    """Returns the number of the shard of a hash, which is the same for all encodings of the hash."""
    hash = data(hash)
    _, label, value = hash.rpartition(b":")
    bits = _bits_of(hash)
    if bits is None:
        bits = _bits_of(value)
    if bits is None:
        bits = value if value else hash
    return _spread(bits) * shards >> 64


def _slot(tag: bytes) -> int:
    return binascii.crc_hqx(tag, 0) % SLOTS


def _spread(value: bytes) -> int:
    bits = 0xCBF29CE484222325
    for byte in value:
        bits = ((bits ^ byte) * 0x100000001B3) & _MASK
    bits = ((bits ^ bits >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & _MASK
    return bits ^ bits >> 31


def _bits_of(hash: bytes) -> Optional[bytes]:
    """Decodes a digest as the module does; None for a hash of another kind."""
    for label, size in _LABELS:
        if hash[: len(label)].lower() == label:
            value = hash[len(label) :]
            return _unhex(value) if len(value) == 2 * size else _unbase32(value, size)
    if len(hash) in (64, 40):
        return _unhex(hash)
    if len(hash) == 32:
        # A SHA-1 in base32 without a label, as in CDX files, or an MD5 in hexadecimal.
        if all(byte in _BASE32 for byte in hash):
            raw = _unbase32(hash, 20)
            if raw is not None:
                return raw
        return _unhex(hash)
    return None


def _unhex(text: bytes) -> Optional[bytes]:
    return binascii.unhexlify(text) if all(byte in _HEX for byte in text) else None


def _unbase32(text: bytes, size: int) -> Optional[bytes]:
    """Decodes base32 in either case, padded or not, to this number of bytes. No bits may be left over."""
    digits = -(-size * 8 // 5)
    padding = b"=" * (-digits % 8)
    value = text[:digits].upper()
    if len(value) != digits or text[digits:] not in (b"", padding) or not all(byte in _BASE32 for byte in value):
        return None
    value += padding
    raw = base64.b32decode(value)
    return raw if len(raw) == size and base64.b32encode(raw) == value else None
