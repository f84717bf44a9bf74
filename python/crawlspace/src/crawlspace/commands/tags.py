"""The commands of a tag space, ``TAGS.*``. A kind of ids is ``record``, ``file`` or ``tag``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Tuple, TypedDict, Union

from ..replies import Clause, Explanation, IdsPage, Point, Rule, TagsInfo, TagsPage, named
from . import Bytes, Command, Word, data, many, nothing, number, same, text, word

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Lines of a CDX server: one value for each line, or all lines in a single bytes object.
Lines = Union[bytes, Iterable[Bytes]]


class Conditions(TypedDict, total=False):
    """Conditions of a filter, all of which must hold; docs/commands/tags.filter.md describes them."""

    #: Name of an access point.
    point: Bytes
    #: Expression over tags and fields.
    where: Bytes
    #: Filters in the syntax of CDX servers.
    filters: Iterable[Bytes]
    #: Syntax of the filters: ``outback``, ``ia`` or ``pywb``.
    dialect: str
    #: Keeps the first of consecutive captures with the same value: ``field`` or ``field:n``.
    collapse: Bytes
    skip: int
    limit: int
    #: Format of the lines: ``auto``, ``cdx``, ``cdxj``, ``record`` or ``file``.
    format: str
    #: A line that cannot be parsed is an ``error`` or is omitted (``drop``).
    bad_lines: str


def _kind(kind: str) -> bytes:
    return word(kind, ("record", "file", "tag"))


def add(key: bytes, kind: str, id: Bytes, tags: Iterable[Bytes]) -> Command[int]:
    """Adds tags to a capture, a file or a tag, and returns how many are new (TAGS.ADD)."""
    return Command(["TAGS.ADD", key, _kind(kind), data(id), *many(tags)], same)


def rem(key: bytes, kind: str, id: Bytes, tags: Iterable[Bytes]) -> Command[int]:
    """Removes tags of a capture, a file or a tag, and returns how many were removed (TAGS.REM)."""
    return Command(["TAGS.REM", key, _kind(kind), data(id), *many(tags)], same)


def get(key: bytes, kind: str, id: Bytes, *, all: bool = False) -> Command[List[bytes]]:
    """Returns the tags of a capture, a file or a tag; with ``all``, also those from rules and other tags (TAGS.GET)."""
    return Command(["TAGS.GET", key, _kind(kind), data(id), *([b"ALL"] if all else [])], same)


def _conditions(words: List[Word], given: "Conditions") -> None:
    unknown = set(given) - set(Conditions.__annotations__)
    if unknown:
        raise TypeError(f"unknown conditions: {', '.join(sorted(unknown))}")
    text(words, b"POINT", given.get("point"))
    text(words, b"WHERE", given.get("where"))
    for spec in many(given.get("filters") or ()):
        words += (b"FILTER", spec)
    if "dialect" in given:
        words += (b"DIALECT", word(given["dialect"], ("outback", "ia", "pywb")))
    text(words, b"COLLAPSE", given.get("collapse"))
    number(words, b"SKIP", given.get("skip"))
    number(words, b"LIMIT", given.get("limit"))
    if "format" in given:
        words += (b"FORMAT", word(given["format"], ("auto", "cdx", "cdxj", "record", "file")))
    if "bad_lines" in given:
        words += (b"BADLINES", word(given["bad_lines"], ("error", "drop")))


def _filter(key: bytes, lines: Lines, returns: bytes, given: "Conditions") -> List[Word]:
    words: List[Word] = ["TAGS.FILTER", key]
    _conditions(words, given)
    words += (b"RETURN", returns)
    if isinstance(lines, bytes):
        return [*words, b"BLOB", lines]
    found = many(lines)
    return [*words, b"LINES", *found] if found else []


def _or_nothing(reply: Any) -> Any:
    return [] if reply is None else reply


def filter(key: bytes, lines: Iterable[Bytes], **conditions: "Unpack[Conditions]") -> Command[List[bytes]]:
    """Returns the lines that pass (TAGS.FILTER)."""
    return Command(_filter(key, [*lines], b"LINES", conditions), _or_nothing, is_job=True)


def filter_text(key: bytes, text: bytes, **conditions: "Unpack[Conditions]") -> Command[bytes]:
    """Returns the lines of ``text`` that pass, each with a line feed (TAGS.FILTER … BLOB)."""
    return Command(_filter(key, data(text), b"LINES", conditions), same, is_job=True)


def filter_index(key: bytes, lines: Lines, **conditions: "Unpack[Conditions]") -> Command[List[int]]:
    """Returns the positions of the lines that pass, from 0 (TAGS.FILTER … RETURN INDEX)."""
    return Command(_filter(key, lines, b"INDEX", conditions), _or_nothing, is_job=True)


def filter_bits(key: bytes, lines: Lines, **conditions: "Unpack[Conditions]") -> Command[bytes]:
    """Returns a bit for each line, the highest bit first; 1 if the line passes (TAGS.FILTER … RETURN BITS)."""
    return Command(_filter(key, lines, b"BITS", conditions), lambda reply: reply or b"", is_job=True)


def filter_count(key: bytes, lines: Lines, **conditions: "Unpack[Conditions]") -> Command[int]:
    """Returns the number of lines that pass (TAGS.FILTER … RETURN COUNT)."""
    return Command(_filter(key, lines, b"COUNT", conditions), lambda reply: reply or 0, is_job=True)


def _tagged(reply: Any) -> List[Tuple[int, List[bytes]]]:
    return [(position, tags) for position, tags in reply or ()]


def filter_tags(
    key: bytes, lines: Lines, **conditions: "Unpack[Conditions]"
) -> Command[List[Tuple[int, List[bytes]]]]:
    """Returns the positions of the lines that pass, with all tags of each (TAGS.FILTER … RETURN TAGS)."""
    return Command(_filter(key, lines, b"TAGS", conditions), _tagged, is_job=True)


def _clause(row: Any) -> Clause:
    return Clause(row[0], bool(row[1]), [_clause(part) for part in row[2]])


_explanation = named(
    Explanation,
    tags=lambda rows: [(tag, source.decode("utf-8", "surrogateescape")) for tag, source in rows],
    clauses=lambda rows: [_clause(row) for row in rows],
)


def explain(key: bytes, line: Bytes, **conditions: "Unpack[Conditions]") -> Command[Explanation]:
    """Explains why a capture passes or not (TAGS.EXPLAIN)."""
    words: List[Word] = ["TAGS.EXPLAIN", key]
    _conditions(words, conditions)
    return Command([*words, b"LINES", data(line)], _explanation)


_info = named(TagsInfo)


def info(key: bytes) -> Command[TagsInfo]:
    """Returns the figures of the tag space (TAGS.INFO)."""
    return Command(["TAGS.INFO", key], _info)


def _cursor(value: Any) -> bytes:
    return b"%d" % value if isinstance(value, int) else value


def list_tags(
    key: bytes,
    expression: Bytes,
    *,
    prefix: Optional[Bytes] = None,
    cursor: Optional[Bytes] = None,
    count: Optional[int] = None,
) -> Command[TagsPage]:
    """Returns a page of the tags that satisfy an expression (TAGS.LIST)."""
    words: List[Word] = ["TAGS.LIST", key, data(expression)]
    text(words, b"PREFIX", prefix)
    text(words, b"CURSOR", cursor)
    number(words, b"COUNT", count)
    return Command(words, lambda reply: TagsPage(_cursor(reply[0]), reply[1]))


def load(key: bytes, kind: str, mode: str, ids: Iterable[Tuple[Bytes, Iterable[Bytes]]] = ()) -> Command[int]:
    """Loads the tags of many ids, given as pairs of an id and its tags (TAGS.LOAD).

    ``mode`` is ``merge``, ``set``, ``replace`` or ``stage``. Returns the number of ids.
    """
    words: List[Word] = ["TAGS.LOAD", key, _kind(kind), word(mode, ("merge", "set", "replace", "stage"))]
    for id, tags in ids:
        words += (data(id), b" ".join(data(tag) for tag in tags))
    return Command(words, same)


def point_del(key: bytes, name: Bytes) -> Command[bool]:
    """Deletes an access point; False if it did not exist (TAGS.POINTDEL)."""
    return Command(["TAGS.POINTDEL", key, data(name)], bool)


def points(key: bytes) -> Command[List[Point]]:
    """Lists the access points (TAGS.POINTS)."""
    return Command(["TAGS.POINTS", key], lambda reply: [Point(*row) for row in reply])


def point(key: bytes, name: Bytes) -> Command[Point]:
    """Returns the access point of a name, with the groups of its pattern filled in (TAGS.POINTS)."""
    return Command(["TAGS.POINTS", key, data(name)], lambda reply: Point(*reply[0]))


def point_set(key: bytes, name: Bytes, expression: Bytes) -> Command[None]:
    """Sets an access point (TAGS.POINTSET)."""
    return Command(["TAGS.POINTSET", key, data(name), data(expression)], nothing)


def rule_del(key: bytes, name: Bytes) -> Command[bool]:
    """Deletes a rule; False if it did not exist (TAGS.RULEDEL)."""
    return Command(["TAGS.RULEDEL", key, data(name)], bool)


def rules(key: bytes) -> Command[List[Rule]]:
    """Lists the rules (TAGS.RULES)."""
    return Command(["TAGS.RULES", key], lambda reply: [Rule(*row) for row in reply])


def rule_set(key: bytes, name: Bytes, field: Bytes, regex: Bytes, templates: Iterable[Bytes]) -> Command[None]:
    """Sets a rule that derives tags from a field (TAGS.RULESET)."""
    return Command(["TAGS.RULESET", key, data(name), data(field), data(regex), *many(templates)], nothing)


def _ids(reply: Any) -> IdsPage:
    rows = reply[1]
    return IdsPage(_cursor(reply[0]), [(id, tags.split(b" ")) for id, tags in zip(rows[::2], rows[1::2])])


def scan(
    key: bytes, kind: str, cursor: Bytes = b"0", *, prefix: Optional[Bytes] = None, count: Optional[int] = None
) -> Command[IdsPage]:
    """Returns a page of ids with their tags (TAGS.SCAN)."""
    words: List[Word] = ["TAGS.SCAN", key, _kind(kind), data(cursor)]
    text(words, b"PREFIX", prefix)
    number(words, b"COUNT", count)
    return Command(words, _ids)


def swap(key: bytes, kind: str, *, expect: Optional[int] = None, discard: bool = False) -> Command[int]:
    """Replaces all ids of a kind by the staged copy, or discards the copy (TAGS.SWAP).

    A call that fails is not repeated.
    """
    words: List[Word] = ["TAGS.SWAP", key, _kind(kind)]
    number(words, b"EXPECT", expect)
    if discard:
        words.append(b"DISCARD")
    return Command(words, same, is_repeatable=False)
