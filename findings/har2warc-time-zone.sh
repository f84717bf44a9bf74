#!/usr/bin/env bash
# har2warc 1.0.4 (PyPI) takes the local time of a HAR entry as UTC.
#
# HAR 1.2 states the start of a request as ISO 8601 with a time zone, such as 2009-07-24T19:20:30.45+01:00, and
# browsers may write local time. har2warc keeps the first 19 characters and appends a Z, so WARC-Date differs from the
# true time by the offset, up to 14 hours. Captures then get the wrong order and day in indexes and TimeMaps, and
# nothing in the WARC file shows the mistake. The request line also keeps only the last of several parameters with
# the same name, because har2warc builds it from a dictionary of `queryString`.
#
# Seen with har2warc 1.0.4 and warcio 1.8.1: a request at 23:30 UTC on 1 January gets the date 01:30 on 2 January.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'har2warc==1.0.4' 'warcio==1.8.1' 'setuptools<81'
cat >example.har <<'JSON'
{"log": {"version": "1.2", "creator": {"name": "example", "version": "1"}, "pages": [], "entries": [{
  "startedDateTime": "2024-01-02T01:30:00.000+02:00", "time": 1, "cache": {},
  "timings": {"send": 0, "wait": 0, "receive": 1},
  "request": {
    "method": "GET", "url": "http://example.com/?tag=a&tag=b", "httpVersion": "HTTP/1.1", "headers": [], "cookies": [],
    "queryString": [{"name": "tag", "value": "a"}, {"name": "tag", "value": "b"}], "headersSize": -1, "bodySize": 0},
  "response": {
    "status": 200, "statusText": "OK", "httpVersion": "HTTP/1.1", "cookies": [], "redirectURL": "",
    "headers": [{"name": "Content-Type", "value": "text/plain"}], "headersSize": -1, "bodySize": 5,
    "content": {"size": 5, "mimeType": "text/plain", "text": "hello"}}}]}}
JSON
venv/bin/har2warc example.har example.warc.gz
venv/bin/python - <<'PYTHON'
import json
from datetime import datetime, timezone
from warcio.archiveiterator import ArchiveIterator

started = json.load(open("example.har"))["log"]["entries"][0]["startedDateTime"]
true = datetime.fromisoformat(started).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
with open("example.warc.gz", "rb") as warc:
    for record in ArchiveIterator(warc):
        if record.rec_type == "response":
            date = record.rec_headers.get_header("WARC-Date")
        if record.rec_type == "request":
            line = record.http_headers.statusline
print(f"HAR: {started} = {true}; WARC-Date: {date}; request target: {line}")
assert true == "2024-01-01T23:30:00Z" and date == "2024-01-02T01:30:00Z", (true, date)
assert line == "/?tag=b HTTP/1.1", line
PYTHON
echo "seen: WARC-Date has the local time with a Z, and the request line lacks a parameter"
