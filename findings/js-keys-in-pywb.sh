#!/usr/bin/env bash
# pywb 2.10 finds no capture of a page whose path ends in a slash in an index with the keys of warcio for JavaScript.
#
# Python programs write the urlkeys of the package surt, which drops a slash at the end of a path. warcio for JavaScript,
# and with it Browsertrix Crawler and js-wacz, keeps the slash, keeps double slashes, and sorts parameters as text. Both
# kinds of keys lie in indexes with the same format, and nothing in a line says which kind it is.
#
# Seen with warcio 2.4.11 (npm), surt 0.3.1 and pywb 2.10.0 (PyPI): three of four URLs have two keys, and pywb's index
# look-up finds the fourth one alone.
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
urls=(http://example.com/plain http://example.com/about/ 'http://example.com/?id2=2&id=1' http://example.com//double)
node keys.mjs "${urls[@]}" >keys.txt
cat keys.txt
venv/bin/python - "${urls[@]}" <<'PYTHON'
import json, sys
from surt import surt
from pywb.warcserver.index.indexsource import FileIndexSource

urls, keys = sys.argv[1:], open("keys.txt").read().split()
lines = sorted(f"{key} 20240102030405 " + json.dumps({"url": url, "mime": "text/html", "status": "200"})
               for key, url in zip(keys, urls))
open("index.cdxj", "w").write("\n".join(lines) + "\n")
source = FileIndexSource("index.cdxj")
found = {}
for url, key in zip(urls, keys):
    wanted = surt(url)
    rows = list(source.load_index({"key": wanted.encode(), "end_key": wanted.encode() + b"!"}))
    found[url] = len(rows)
    print(f"{url}: warcio {key}, surt {wanted}: {len(rows)} rows")
assert list(found.values()) == [1, 0, 0, 0], found
print("pywb 2.10.0 finds one of four captures")
PYTHON
