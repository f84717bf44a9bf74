#!/usr/bin/env bash
# surt 0.3.1 (PyPI) gives different URLs the same key if one of them has an escaped separator.
#
# RFC 3986, section 2.2, says that URIs which differ in the percent-encoding of a reserved character are not
# equivalent. surt decodes %26, %2B, %2F and %3F, so `?q=a%26b=1`, a search for "a&b=1", has the key of `?q=a&b=1`. An
# index look-up by key returns the captures of both. pywb, which has the same rules, offers them as captures of
# one page, and replay takes the one that is closest in time. Only the field `url` tells them apart.
#
# Seen with surt 0.3.1 and pywb 2.10.0 (PyPI). warcio 2.4.11 (npm) keeps these keys apart.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund warcio@2.4.11 >/dev/null 2>&1
python3 -m venv venv
venv/bin/pip install -q 'pywb==2.10.0' 'surt==0.3.1' 'setuptools<81'
cat >keys.mjs <<'JAVASCRIPT'
import { getSurt } from "warcio/utils";
for (const url of process.argv.slice(2)) {
  console.log(getSurt(url));
}
JAVASCRIPT
urls=('http://example.com/search?q=a%26b=1' 'http://example.com/search?q=a&b=1'
    'http://example.com/search?q=c%2B%2B' 'http://example.com/search?q=c++'
    'http://example.com/one%2Ftwo' 'http://example.com/one/two'
    'http://example.com/what%3Fnow' 'http://example.com/what?now')
node keys.mjs "${urls[@]}" >keys.txt
venv/bin/python - "${urls[@]}" <<'PYTHON'
import json
import sys

from pywb.utils.canonicalize import canonicalize
from pywb.warcserver.index.indexsource import FileIndexSource
from surt import surt

urls = sys.argv[1:]
by_warcio = open("keys.txt").read().split()
lines = sorted(f"{surt(url)} 20240102030405 " + json.dumps({"url": url, "mime": "text/html"}) for url in urls)
open("index.cdxj", "w").write("\n".join(lines) + "\n")
source = FileIndexSource("index.cdxj")
for n in range(0, len(urls), 2):
    pair, key = urls[n:n + 2], canonicalize(urls[n])
    rows = list(source.load_index({"key": key.encode(), "end_key": key.encode() + b"!"}))
    print(f"{key}: {', '.join(row['url'] for row in rows)}")
    assert surt(pair[0]) == surt(pair[1]) == key, pair
    assert sorted(row["url"] for row in rows) == sorted(pair), rows
    assert by_warcio[n] != by_warcio[n + 1], by_warcio[n:n + 2]
PYTHON
echo "seen: pywb finds the captures of two URLs under each of four keys"
