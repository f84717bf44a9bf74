#!/usr/bin/env bash
# pywb 2.10 does not find captures of URLs whose path ends in a slash if warcio for JavaScript wrote the index
# keys.
#
# Python programs use the urlkeys of the package surt, which removes a slash at the end of a path. warcio for
# JavaScript (used by Browsertrix Crawler and js-wacz) keeps this slash, keeps double slashes, and sorts
# parameters as text. Indexes with either kind of key have the same format, and a line does not show which
# kind of key it has.
#
# Seen with warcio 2.4.11 (npm), surt 0.3.1 and pywb 2.10.0 (PyPI): the two packages derive different keys
# from three of four URLs, and pywb's index look-up only finds the fourth URL.
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
