"""A tag space."""

from __future__ import annotations

from ..commands import tags
from .client import Client, call


class Tags(Client):
    """A tag space at a key. Each method is a command; its docstring names the command."""

    add = call(tags.add)
    explain = call(tags.explain)
    filter = call(tags.filter)
    filter_text = call(tags.filter_text)
    filter_index = call(tags.filter_index)
    filter_bits = call(tags.filter_bits)
    filter_count = call(tags.filter_count)
    filter_tags = call(tags.filter_tags)
    get = call(tags.get)
    info = call(tags.info)
    list = call(tags.list_tags)
    load = call(tags.load)
    point_del = call(tags.point_del)
    points = call(tags.points)
    point = call(tags.point)
    point_set = call(tags.point_set)
    rem = call(tags.rem)
    rule_del = call(tags.rule_del)
    rules = call(tags.rules)
    rule_set = call(tags.rule_set)
    scan = call(tags.scan)
    swap = call(tags.swap)
