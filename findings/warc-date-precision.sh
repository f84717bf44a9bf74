#!/usr/bin/env bash
# Indexers cannot handle the dates of lower precision that WARC 1.1 allows.
#
# Since WARC 1.1 (section 5.4), WARC-Date may have any granularity of the W3C profile of ISO 8601: a year, a month, a
# day, minutes, seconds, or fractions of a second. warcio for JavaScript removes the punctuation and cuts the rest at
# 14 characters, so it writes timestamps of 4, 6 and 8 digits, and one that ends in the letter Z. cdxj-indexer pads
# minutes and days, but its library warcio raises TypeError for a year or a month, and the index ends there.
#
# Seen with warcio 2.4.11 (npm), cdxj-indexer 1.5.0 and warcio 1.8.1 (PyPI).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund warcio@2.4.11 >/dev/null 2>&1
python3 -m venv venv
venv/bin/pip install -q 'cdxj-indexer==1.5.0' 'warcio==1.8.1' 'setuptools<81'
printf '%-30s %-20s %s\n' WARC-Date 'warcio (npm)' cdxj-indexer
while read -r date javascript python; do
    {
        printf '%s\r\n' 'WARC/1.1' 'WARC-Type: resource' 'WARC-Target-URI: http://example.com/' "WARC-Date: $date" \
            'WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>' 'Content-Type: text/plain' \
            'Content-Length: 5' ''
        printf 'hello\r\n\r\n'
    } >example.warc
    one=$(node node_modules/warcio/dist/cli.js cdx-index example.warc | cut -d ' ' -f 2)
    other=$(venv/bin/cdxj-indexer example.warc 2>errors | cut -d ' ' -f 2) || other=$(tail -n 1 errors | cut -d : -f 1)
    printf '%-30s %-20s %s\n' "$date" "$one" "$other"
    [ "$one $other" = "$javascript $python" ]
done <<'TABLE'
2024-01-02T03:04:05.123456789Z 20240102030405 20240102030405
2024-01-02T03:04:05Z 20240102030405 20240102030405
2024-01-02T03:04Z 202401020304Z 20240102030400
2024-01-02 20240102 20240102000000
2024-01 202401 TypeError
2024 2024 TypeError
TABLE
echo "seen: only full dates get a timestamp of 14 digits from both"
