#!/usr/bin/env bash
# warcio 2.4.11 (npm) loses the record that follows a `response` record of another protocol than HTTP.
#
# The contents of a `response` record depend on the scheme of its URI (WARC 1.1, section 6.3), and its Content-Type is
# application/http only if its block is an HTTP message. warcio for JavaScript does not look at either, and parses HTTP
# header fields in every `response` record. If the block has no empty line, it reads on into the next record. The
# index of such a file lacks the next page and has a line "undefined" instead. js-wacz and the tools of Webrecorder
# use this package. warcio for Python indexes all records.
#
# Seen with warcio 2.4.11 (npm) and cdxj-indexer 1.5.0 (PyPI), and a WHOIS answer between two pages.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund warcio@2.4.11 >/dev/null 2>&1
python3 -m venv venv
venv/bin/pip install -q 'cdxj-indexer==1.5.0' 'warcio==1.8.1' 'setuptools<81'
venv/bin/python - <<'PYTHON'
import gzip

page = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello"
http = b"application/http; msgtype=response"
records = (
    (b"http://example.com/one", http, page),
    (b"whois://whois.example.net/example.com", b"text/plain", b"Domain Name: EXAMPLE.COM\r\n"),
    (b"http://example.com/two", http, page),
    (b"http://example.com/three", http, page),
)
with open("example.warc.gz", "wb") as out:
    for n, (url, kind, block) in enumerate(records):
        out.write(gzip.compress(
            b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-00000000000%d>\r\n"
            b"WARC-Target-URI: %s\r\nWARC-Date: 2024-01-02T03:04:05Z\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
            % (n, url, kind, len(block)) + block + b"\r\n\r\n"))
PYTHON
node node_modules/warcio/dist/cli.js cdx-index example.warc.gz 2>/dev/null | cut -d ' ' -f 1 >javascript
venv/bin/cdxj-indexer example.warc.gz | cut -d ' ' -f 1 >python
grep . javascript python
diff python - <<'CDXJ'
com,example)/one
net,example,whois)/example.com
com,example)/two
com,example)/three
CDXJ
diff javascript - <<'CDXJ'
com,example)/one
whois://whois.example.net/example.com
undefined
com,example)/three
CDXJ
echo "seen: the index by warcio for JavaScript lacks the page after the WHOIS answer"
