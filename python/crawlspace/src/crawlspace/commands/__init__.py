"""Commands as values, without I/O: the words to send, the parser of the reply, and whether a client may retry.

The modules ``chg``, ``dedupe`` and ``tags`` have a function for each command. Its first argument is the prefix of the
index or frontier, or the key of the tag space. ``Frontier``, ``Dedupe`` and ``Tags`` call these functions;
``send`` takes several commands, also of different prefixes, for one round trip.
"""

from __future__ import annotations

from typing import Any, Callable, Generic, Iterable, List, Literal, NamedTuple, Optional, Tuple, TypeVar, Union

#: An argument of any bytes. Text is encoded as UTF-8; lone surrogates of file names become their bytes.
Bytes = Union[bytes, str]
#: Writer and number of a call. With None, the client chooses both; with False, it sends no ``SEQ``.
Seq = Union[Tuple[Bytes, int], Literal[False], None]
#: A word of a command.
Word = Union[bytes, int, str]

T = TypeVar("T")


class Wait(NamedTuple):
    """A wait in the server, which a client may split into several shorter waits.

    The last word of the command is the time to wait in milliseconds; 0 waits without a limit.
    """

    #: Returns True if the reply means that the wait ended without a result.
    is_unmet: Callable[[Any], bool]
    #: Creates the command that continues the wait from the reply; None to send the same command again.
    then: Optional[Callable[[Any], "Command[Any]"]] = None


class Command(Generic[T]):
    """A command with its arguments. Without words, nothing is sent, and ``parse`` gets None."""

    __slots__ = ("words", "parse", "wait", "seq_at", "is_repeatable", "is_job")

    def __init__(
        self,
        words: List[Word],
        parse: Callable[[Any], T],
        wait: Optional[Wait] = None,
        seq_at: int = 0,
        is_repeatable: bool = True,
        is_job: bool = False,
    ) -> None:
        #: Name and arguments. The name is text, because redis-py looks it up; all else is bytes and integers.
        self.words = words
        #: Converts the reply, in RESP2 or RESP3.
        self.parse = parse
        #: Set if the command waits.
        self.wait = wait
        #: Position at which the client inserts ``SEQ writer n``; 0 for commands without a number.
        self.seq_at = seq_at
        #: False if sending the command twice could fail or lose something.
        self.is_repeatable = is_repeatable
        #: True if the command may work for longer than a reply usually takes.
        self.is_job = is_job


def data(value: Bytes) -> bytes:
    """Returns the bytes of an argument."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise TypeError(f"expected bytes or str, not {type(value).__name__}")


def many(values: Iterable[Bytes]) -> List[Word]:
    """Returns the bytes of each argument."""
    if isinstance(values, (bytes, str)):
        raise TypeError("expected several values, not a single bytes or str: put it into a list")
    found: List[Any] = list(values)
    try:
        # Fails if a value is text. This is faster than a check of each type.
        b"".join(found)
    except TypeError:
        return list(map(data, found))
    return found


def row(kind: Any, value: Any) -> Any:
    """Returns a plain tuple as a row of this NamedTuple, whose last fields have defaults."""
    if not isinstance(value, (bytes, str)):
        try:
            return kind(*value)
        except TypeError:
            pass
    raise TypeError(f"expected {kind.__name__} or a tuple ({', '.join(kind._fields)}), not {value!r}")


def number(words: List[Word], name: bytes, value: Optional[int]) -> None:
    """Appends an option whose value is a number."""
    if value is not None:
        words += (name, value)


def text(words: List[Word], name: bytes, value: Optional[Bytes]) -> None:
    """Appends an option whose value is any bytes."""
    if value is not None:
        words += (name, data(value))


def word(value: str, allowed: Iterable[str]) -> bytes:
    """Returns a keyword in upper case."""
    if value.lower() not in allowed:
        raise ValueError(f"expected one of {', '.join(allowed)}, not {value!r}")
    return value.upper().encode()


def same(reply: Any) -> Any:
    """Returns the reply unchanged."""
    return reply


def nothing(_reply: Any) -> None:
    """Discards a reply of ``OK``."""
