#!/usr/bin/env bash
# warcio 1.8.1 and FastWARC 2.0.1 (PyPI) call the payload digests of chunked responses wrong that WARC 1.1 defines.
#
# The payload of an HTTP response is its body "with any transfer-encoding removed" (WARC 1.1, section 6.3.2), so the
# digest must not depend on where a server ends its chunks. `warcio check` and `fastwarc check` compute WARC-Payload-
# Digest over the recorded bytes, which include the sizes of the chunks. They report a correct digest as a failure and
# accept one over the chunks. cdxj-indexer also computes missing digests over the chunks, so two captures of one
# page have different digests in an index if the server sent it in different chunks.
#
# Seen with warcio 1.8.1, FastWARC 2.0.1 and cdxj-indexer 1.5.0.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'warcio==1.8.1' 'fastwarc==2.0.1' 'cdxj-indexer==1.5.0' 'setuptools<81'
venv/bin/python - <<'PYTHON'
import base64
import hashlib


def digest(payload):
    return "sha1:" + base64.b32encode(hashlib.sha1(payload).digest()).decode()


def write(name, chunks, stated):
    block = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    field = f"WARC-Payload-Digest: {stated}\r\n" if stated else ""
    with open(name, "wb") as out:
        out.write((
            "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n"
            "WARC-Target-URI: http://example.com/\r\nWARC-Date: 2024-01-02T03:04:05Z\r\n" + field +
            "Content-Type: application/http; msgtype=response\r\n"
            f"Content-Length: {len(block)}\r\n\r\n{block}\r\n\r\n").encode())


one, two = "5\r\nhello\r\n0\r\n\r\n", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
write("payload.warc", one, digest(b"hello"))
write("chunks.warc", one, digest(one.encode()))
write("one.warc", one, None)
write("two.warc", two, None)
PYTHON
for name in payload chunks; do
    for tool in 'warcio check' 'fastwarc check --quiet --verify-payloads'; do
        status=0
        venv/bin/$tool $name.warc >/dev/null 2>&1 || status=$?
        echo "${tool%% *}, digest over the $name: exit status $status"
        case $name in
            payload) test "$status" != 0 ;;
            chunks) test "$status" = 0 ;;
        esac
    done
done
venv/bin/cdxj-indexer one.warc two.warc | grep -o '"digest": "[^"]*"' | tee digests
[ "$(sort -u digests | wc -l)" = 2 ]
echo "seen: both tools reject the digest of the payload, and one page has two digests"
