#!/usr/bin/env bash
# warcio 1.8.1 (PyPI) does not decode bodies whose transfer coding is spelled `Chunked`.
#
# The names of transfer codings are case-insensitive (RFC 9112, section 7), so a server may send `Chunked`. warcio
# compares the value with `chunked` exactly, and `content_stream()` returns the chunk sizes as part of the page. Tools
# that read pages with warcio, such as text extractors, see these sizes in the text. FastWARC decodes both spellings.
#
# Seen with warcio 1.8.1 and FastWARC 2.0.1.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'warcio==1.8.1' 'fastwarc==2.0.1'
venv/bin/python - <<'PYTHON'
import fastwarc.warc
import warcio.archiveiterator

spellings = ("chunked", "Chunked")
with open("example.warc", "wb") as out:
    for n, coding in enumerate(spellings):
        block = (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: " + coding.encode() +
                 b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        out.write(
            b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-00000000000%d>\r\n"
            b"WARC-Target-URI: http://example.com/%d\r\nWARC-Date: 2024-01-02T03:04:05Z\r\n"
            b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n" % (n, n, len(block)))
        out.write(block + b"\r\n\r\n")
with open("example.warc", "rb") as warc:
    by_warcio = [record.content_stream().read() for record in warcio.archiveiterator.ArchiveIterator(warc)]
with open("example.warc", "rb") as warc:
    by_fastwarc = [record.reader.read() for record in fastwarc.warc.ArchiveIterator(warc, auto_decode="all")]
for coding, one, other in zip(spellings, by_warcio, by_fastwarc):
    print(f"Transfer-Encoding: {coding}: warcio {one!r}, FastWARC {other!r}")
assert by_warcio == [b"hello", b"5\r\nhello\r\n0\r\n\r\n"], by_warcio
assert by_fastwarc == [b"hello", b"hello"], by_fastwarc
PYTHON
echo "seen: warcio returns the chunks of a body whose coding is spelled with a capital letter"
