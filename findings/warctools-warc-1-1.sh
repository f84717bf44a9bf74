#!/usr/bin/env bash
# warctools 5.0.1 (PyPI) cannot read WARC 1.1 files on Python 3.
#
# warctools knows the versions 0.17, 0.18 and 1.0. For any other version it adds an error to the record and reads on,
# but it builds the text of this error from bytes and raises TypeError. warcvalid, warcdump, warcindex, warc2warc and
# warcextract all fail on the first record of a WARC 1.1 file (ISO 28500:2017), although they could read its fields.
# warcprox depends on this package.
#
# Seen with warctools 5.0.1 on Python 3: the same record is valid as WARC/1.0.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'warctools==5.0.1'
for version in 1.0 1.1; do
    printf '%s\r\n' "WARC/$version" 'WARC-Type: resource' 'WARC-Target-URI: http://example.com/' \
        'WARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>' 'WARC-Date: 2024-01-02T03:04:05Z' \
        'Content-Type: text/plain' 'Content-Length: 5' '' >"$version.warc"
    printf 'hello\r\n\r\n' >>"$version.warc"
done
for tool in warcvalid warcdump warcindex; do
    for version in 1.0 1.1; do
        status=0
        "venv/bin/$tool" "$version.warc" >"$tool-$version" 2>&1 || status=$?
        echo "$tool, WARC/$version: exit status $status, $(tail -n 1 "$tool-$version")"
        if [ $version = 1.0 ]; then
            [ "$status" = 0 ]
        else
            [ "$status" != 0 ]
            grep -q 'expected str instance, bytes found' "$tool-$version"
        fi
    done
done
echo "seen: the tools read version 1.0 and fail on version 1.1"
