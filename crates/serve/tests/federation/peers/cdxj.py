"""Prints the rows that cdxj-indexer writes for each file, as JSON: the lines, and the error that ended them."""

import io
import json
import sys

from cdxj_indexer.main import CDXJIndexer

# The parser of AMF prints its errors.
printed, sys.stdout = sys.stdout, sys.stderr
with open(sys.argv[1]) as files:
    for line in files:
        path, has_requests = json.loads(line)
        out, error = io.StringIO(), None
        try:
            indexer = CDXJIndexer(None, [path], post_append=has_requests)
            with open(path, "rb") as file:
                indexer.process_one(file, out, path)
        except Exception as failure:
            error = type(failure).__name__
        lines = sorted(set(out.getvalue().splitlines()))
        print(json.dumps({"lines": lines, "error": error}), file=printed)
