#!/usr/bin/env bash
# warcio 1.8.1 (PyPI) reads records of ARC version 2 as records of version 1.
#
# In version 2 of the ARC format (Internet Archive, 1996), the header line of a record has ten fields instead of
# five: URL, IP address, date, content type, result code, checksum, location, offset, file name, and length. The
# first record of the file says which version follows. warcio takes the last four fields before the length as
# those of version 1, whatever the version, so that the first fields become part of the URL, and a field of
# the wrong place becomes the date. An index of such files has no usable URLs.
#
# Seen with warcio 1.8.1 and cdxj-indexer 1.5.0.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'warcio==1.8.1'
venv/bin/python - <<'PYTHON'
from warcio.archiveiterator import ArchiveIterator

page = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\nhello"
fields = b"URL IP-address Archive-date Content-type Result-code Checksum Location Offset Filename Archive-length\n"
names = {
    1: b"URL IP-address Archive-date Content-type Archive-length\n",
    2: fields,
}
lines = {
    1: b"http://example.com/page 192.0.2.1 19970131120000 text/html %d\n" % len(page),
    2: b"http://example.com/page 192.0.2.1 19970131120000 text/html 200 - - 200 a.arc %d\n" % len(page),
}
found = {}
for version in (1, 2):
    block = b"%d 0 Example\n" % version + names[version]
    first = {
        1: b"filedesc://a.arc 0.0.0.0 19970131120000 text/plain %d\n" % len(block),
        2: b"filedesc://a.arc 0.0.0.0 19970131120000 text/plain 200 - - 0 a.arc %d\n" % len(block),
    }[version]
    with open("a.arc", "wb") as out:
        out.write(first + block + b"\n" + lines[version] + page + b"\n")
    with open("a.arc", "rb") as arc:
        for record in ArchiveIterator(arc, arc2warc=True):
            if record.rec_type == "response":
                headers = record.rec_headers
                found[version] = (headers.get_header("WARC-Target-URI"), headers.get_header("WARC-Date"))
for version, (url, date) in found.items():
    print(f"version {version}: {url!r} {date}")
assert found[1] == ("http://example.com/page", "1997-01-31T12:00:00Z"), found[1]
assert found[2][0] != "http://example.com/page", found[2]
PYTHON
echo "seen: the URL of a version 2 record contains other fields of its header line"
