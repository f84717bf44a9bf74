#!/usr/bin/env bash
# cdxj-indexer 1.5.0 (PyPI) gives revisits of POST requests the key of a GET request.
#
# With --post-append, which `wacz create` uses for every package, the urlkey of a response to a POST request contains
# the body of the request. cdxj-indexer only joins request records with `response` records. If a deduplicating crawler
# stores the answer as a `revisit` record, the request is not found, although WARC-Concurrent-To names it (WARC 1.1,
# section 5.7, whose example is "a 'response' or 'revisit' record plus its associated 'request' record"). A replay
# system does not find the revisit for the POST request, and returns it for a GET request of the same URL. warcio for
# JavaScript gives both captures the same key.
#
# Seen with cdxj-indexer 1.5.0 and warcio 1.8.1 (PyPI), and warcio 2.4.11 (npm).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund warcio@2.4.11 >/dev/null 2>&1
python3 -m venv venv
venv/bin/pip install -q 'cdxj-indexer==1.5.0' 'warcio==1.8.1' 'setuptools<81'
venv/bin/python - <<'PYTHON'
from io import BytesIO
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

url, digest = "http://example.com/api", "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"
with open("example.warc.gz", "wb") as out:
    writer = WARCWriter(out, gzip=True)
    for day, answer in ((1, "response"), (2, "revisit")):
        date = f"2024-01-0{day}T00:00:00Z"
        head = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.1")
        if answer == "response":
            captured = writer.create_warc_record(
                url, "response", payload=BytesIO(b"hello"), http_headers=head, warc_headers_dict={"WARC-Date": date})
        else:
            captured = writer.create_revisit_record(
                url, digest, refers_to_uri=url, refers_to_date="2024-01-01T00:00:00Z", http_headers=head,
                warc_headers_dict={"WARC-Date": date})
        fields = [("Content-Type", "application/x-www-form-urlencoded"), ("Content-Length", "3")]
        asked = writer.create_warc_record(
            url, "request", payload=BytesIO(b"a=1"), warc_headers_dict={"WARC-Date": date},
            http_headers=StatusAndHeaders("POST /api HTTP/1.1", fields, is_http_request=True))
        writer.write_request_response_pair(asked, captured)
PYTHON
venv/bin/cdxj-indexer --post-append example.warc.gz | cut -d ' ' -f 1,2 >python
node node_modules/warcio/dist/cli.js cdx-index example.warc.gz | cut -d ' ' -f 1,2 >javascript
grep . python javascript
diff javascript - <<'CDXJ'
com,example)/api?__wb_method=post&a=1 20240101000000
com,example)/api?__wb_method=post&a=1 20240102000000
CDXJ
diff python - <<'CDXJ'
com,example)/api?__wb_method=post&a=1 20240101000000
com,example)/api 20240102000000
CDXJ
echo "seen: cdxj-indexer gives the revisit the key of a GET request"
