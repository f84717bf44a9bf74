#!/usr/bin/env bash
# cdxj-indexer 1.5.0 (PyPI) gives records without a payload digest the SHA-1 of an empty payload with
# --post-append.
#
# WARC-Payload-Digest is optional. If a record does not have it, cdxj-indexer computes the digest. With
# --post-append, which `wacz create` uses for every package, cdxj-indexer has read the body before it computes
# the digest. The digest is then the digest of an empty payload, regardless of the actual payload. A reader
# that deduplicates by the digests of such an index treats all these pages as the same page.
#
# Seen with cdxj-indexer 1.5.0 and warcio 1.8.1: the digests are correct without the option. With it, both
# pages have the digest sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'cdxj-indexer==1.5.0' 'warcio==1.8.1' 'setuptools<81'
venv/bin/python - <<'PYTHON'
with open("plain.warc", "wb") as out:
    for n, payload in enumerate((b"one page", b"another page")):
        block = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + payload
        out.write(
            b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-00000000000%d>\r\n"
            b"WARC-Target-URI: http://example.com/%d\r\nWARC-Date: 2024-01-02T03:04:05Z\r\n"
            b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n" % (n, n, len(block)))
        out.write(block + b"\r\n\r\n")
PYTHON
venv/bin/cdxj-indexer plain.warc >without.cdxj
venv/bin/cdxj-indexer --post-append plain.warc >with.cdxj
venv/bin/python - <<'PYTHON'
import base64, hashlib, json

def digests(name):
    return [json.loads(line.split(" ", 2)[2])["digest"] for line in open(name) if line.strip()]

of = lambda payload: "sha1:" + base64.b32encode(hashlib.sha1(payload).digest()).decode()
without, appended = digests("without.cdxj"), digests("with.cdxj")
print("without --post-append:", *without)
print("with --post-append:   ", *appended)
assert without == [of(b"one page"), of(b"another page")], without
assert appended == [of(b""), of(b"")], appended
print("cdxj-indexer 1.5.0: with --post-append both pages have the digest of nothing")
PYTHON
