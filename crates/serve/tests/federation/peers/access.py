"""Prints the result of pywb's access checker for each capture in a file, one result per line."""

import json
import os
import sys

from warcio.timeutils import timestamp_to_datetime

from pywb.warcserver import access_checker


class Clock:
    """Replaces the clock of the checker."""

    moment = None

    @classmethod
    def now(cls, zone):
        return cls.moment


access_checker.datetime = Clock
out = sys.stdout
# Discard the output of the checker, which prints each comparison.
sys.stdout = open(os.devnull, "w")
with open(sys.argv[1]) as worlds:
    for line in worlds:
        world = json.loads(line)
        Clock.moment = timestamp_to_datetime(world["now"], tz_aware=True)
        checker = access_checker.AccessChecker(world["files"], world["default"], world["embargo"])
        for url, timestamp in world["captures"]:
            shown = list(checker.wrap_iter([{"url": url, "timestamp": timestamp}], None))
            out.write((shown[0]["access"] if shown else "exclude") + "\n")
