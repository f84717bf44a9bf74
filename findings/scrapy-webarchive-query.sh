#!/usr/bin/env bash
# scrapy-webarchive 0.5.3 (PyPI) writes request records without the query of the URL.
#
# The target of an HTTP request consists of path and query (RFC 9112, section 3.2.1). The extension, which writes a WACZ
# file while a Scrapy spider runs, puts only the path into the request line, so the record does not show what was
# sent. It also writes only the last field of each name from a response, so cookies are lost: Set-Cookie may be
# repeated (RFC 9110, section 5.3). The payload of the response is intact.
#
# Seen with scrapy-webarchive 0.5.3 and Scrapy 2.11.2, which needs older versions of w3lib and Twisted.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'scrapy==2.11.2' 'w3lib==2.2.1' 'twisted==24.3.0' 'warcio==1.7.4' 'setuptools<81'
venv/bin/pip install -q --no-deps 'scrapy-webarchive==0.5.3'
venv/bin/python - <<'PYTHON'
from scrapy.http import Headers, HtmlResponse, Request
from scrapy_webarchive.warc.writers import WarcFileWriter
from warcio.archiveiterator import ArchiveIterator

url = "http://example.com/search?q=archive&page=2"
headers = Headers({"Content-Type": "text/html", "Set-Cookie": ["a=1", "b=2"]})
request = Request(url, meta={"WARC-Date": "2024-01-02T03:04:05Z"})
writer = WarcFileWriter("example", warc_fname="example.warc.gz")
response = writer.write_response(HtmlResponse(url, headers=headers, body=b"<p>hello"), request)
writer.write_request(request, concurrent_to=response)
with open("example.warc.gz", "rb") as warc:
    found = {
        record.rec_type: (record.http_headers.to_str().splitlines(), record.content_stream().read())
        for record in ArchiveIterator(warc)
    }
for kind, (head, body) in found.items():
    print(f"{kind}: {head} {body}")
assert found["request"][0][0] == "GET /search HTTP/1.0", found["request"]
assert [line for line in found["response"][0] if line.startswith("Set-Cookie")] == ["Set-Cookie: b=2"], found
assert found["response"][1] == b"<p>hello", found
PYTHON
echo "seen: the request has no query, and one of two cookies is lost"
