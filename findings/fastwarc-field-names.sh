#!/usr/bin/env bash
# FastWARC 2.0.1 (PyPI) cannot read records whose field names are in lower case, as warcio for JavaScript copies them.
#
# "Field names are case-insensitive" (WARC 1.1, section 4). If warcio for JavaScript reads a record and writes it
# again, with its default options, the names become lower case. FastWARC compares WARC-Type, Content-Type and
# Content-Length exactly. Such a record has an unknown type, and its length counts as zero. The reader then looks
# for the next record inside the block and stops with "Invalid WARC header", so the rest of the file is lost. warcio
# for Python reads these files.
#
# Seen with warcio 2.4.11 (npm), FastWARC 2.0.1 and warcio 1.8.1 (PyPI).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund warcio@2.4.11 >/dev/null 2>&1
python3 -m venv venv
venv/bin/pip install -q 'warcio==1.8.1' 'fastwarc==2.0.1'
cat >copy.mjs <<'JAVASCRIPT'
import { WARCParser, WARCRecord, WARCSerializer } from "warcio";
import { writeFileSync } from "node:fs";

async function* body() {
  yield new TextEncoder().encode("hello");
}
const date = "2024-01-02T03:04:05Z";
const httpHeaders = { "Content-Type": "text/plain" };
const made = WARCRecord.create({ url: "http://example.com/", date, type: "response", httpHeaders }, body());
const original = await WARCSerializer.serialize(made);
writeFileSync("original.warc", original);
for await (const record of new WARCParser([original])) {
  writeFileSync("copy.warc", await WARCSerializer.serialize(record));
}
JAVASCRIPT
node copy.mjs
head -n 9 copy.warc
venv/bin/python - <<'PYTHON'
import fastwarc.warc
import warcio.archiveiterator


def by_fastwarc(name):
    found = []
    try:
        with open(name, "rb") as warc:
            for record in fastwarc.warc.ArchiveIterator(warc):
                found.append((str(record.record_type), record.reader.read()))
    except OSError as error:
        found.append(str(error))
    return found


def by_warcio(name):
    with open(name, "rb") as warc:
        records = warcio.archiveiterator.ArchiveIterator(warc)
        return [(record.rec_type, record.content_stream().read()) for record in records]


for name in ("original.warc", "copy.warc"):
    print(f"{name}: FastWARC {by_fastwarc(name)}, warcio {by_warcio(name)}")
    assert by_warcio(name) == [("response", b"hello")], by_warcio(name)
assert by_fastwarc("original.warc") == [("response", b"hello")], by_fastwarc("original.warc")
assert by_fastwarc("copy.warc") == [("unknown", b""), "Invalid WARC header"], by_fastwarc("copy.warc")
PYTHON
echo "seen: FastWARC finds no response in the copy"
