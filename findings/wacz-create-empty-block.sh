#!/usr/bin/env bash
# wacz 0.6.0 (PyPI) ends an index of 1024 captures with a block that has no lines.
#
# `wacz create` writes the index in gzip members of 1024 lines each, and a secondary index (index.idx) with
# the key of the first line of each member. If the number of captures is a multiple of 1024, an empty gzip
# member follows, and its line in the secondary index repeats the previous key. A reader that looks for the
# last line whose key is not greater than the wanted key reads the empty member, and does not find the
# captures with keys after the repeated key.
#
# Seen with wacz 0.6.0 and cdxj-indexer 1.5.0: the secondary index has two lines with the same key, and the
# second line refers to a member of 20 bytes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'wacz==0.6.0' 'cdxj-indexer==1.5.0' 'warcio==1.8.1' 'setuptools<81'
venv/bin/python - <<'PYTHON'
from io import BytesIO
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

with open("many.warc.gz", "wb") as out:
    writer = WARCWriter(out, gzip=True)
    for n in range(1024):
        headers = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.1")
        date = {"WARC-Date": "2024-01-02T03:04:05Z"}
        record = writer.create_warc_record(
            f"http://example.com/p{n:04}", "response", payload=BytesIO(b"%d" % n), http_headers=headers,
            warc_headers_dict=date)
        writer.write_record(record)
PYTHON
venv/bin/wacz create -o many.wacz many.warc.gz >/dev/null 2>&1
venv/bin/python - <<'PYTHON'
import gzip, json, zipfile

package = zipfile.ZipFile("many.wacz")
blocks = package.read("indexes/index.cdx.gz")
lines = [line for line in package.read("indexes/index.idx").decode().splitlines() if not line.startswith("!meta")]
seen = []
for line in lines:
    key, _, about = line.partition(" {")
    about = json.loads("{" + about)
    text = gzip.decompress(blocks[about["offset"]:about["offset"] + about["length"]])
    seen.append((key, about["length"], text.count(b"\n")))
    print(f"{key}: {about['length']} bytes, {seen[-1][2]} lines")
(first, _, many), (second, length, none) = seen
assert (many, none, length, second) == (1024, 0, 20, first), seen
print("wacz 0.6.0: the last block is empty, and has the key of the block before it")
PYTHON
