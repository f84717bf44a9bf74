#!/usr/bin/env bash
# FastWARC 2.0.1 (PyPI): `fastwarc index` gives records without an HTTP status the text "None" as their status.
#
# The command writes one line of JSON for each WARC record. A field that a record does not have is null, as the
# content type of a request record that has none. The status of such a record is the text "None" instead, which a
# reader that compares it with null or converts it to a number does not expect. The lines also have no key and no
# timestamp in front of the JSON, although the help text calls the format CDXJ, so replay systems cannot read them.
#
# Seen with FastWARC 2.0.1 and a file that warcio 1.8.1 wrote.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'fastwarc==2.0.1' 'warcio==1.8.1'
venv/bin/python - <<'PYTHON'
import io
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

with open("example.warc.gz", "wb") as out:
    writer = WARCWriter(out, gzip=True)
    url = "http://example.com/page"
    answer = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
    writer.write_record(writer.create_warc_record(url, "response", payload=io.BytesIO(b"hello"), http_headers=answer))
    asked = StatusAndHeaders("GET /page HTTP/1.1", [("Host", "example.com")], is_http_request=True)
    writer.write_record(writer.create_warc_record(url, "request", payload=io.BytesIO(b""), http_headers=asked))
PYTHON
venv/bin/fastwarc index -f warc-type,http:status,http:content-type example.warc.gz -o index.cdxj
cat index.cdxj
venv/bin/python - <<'PYTHON'
import json

lines = open("index.cdxj").read().splitlines()
assert all(line.startswith("{") for line in lines), lines
response, request = map(json.loads, lines)
assert (response["warc-type"], response["http:status"]) == ("response", "200"), response
assert request["warc-type"] == "request" and request["http:content-type"] is None, request
assert request["http:status"] == "None", request
PYTHON
echo 'seen: the status of the request record is the text "None", and its content type is null'
