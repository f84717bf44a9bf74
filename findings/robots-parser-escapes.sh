#!/usr/bin/env bash
# robots-parser 3.0.1 (npm) allows URLs that the rules of robots.txt name with percent-encoded characters.
#
# RFC 9309, section 2.2.2, compares paths after decoding percent-encoded ASCII characters that are not reserved, and
# shows /foo/bar/%62%61%7A as a rule for /foo/bar/baz. Section 2.2.3 tells site owners to write %2A and %24 if a rule
# means the characters `*` and `$`. robots-parser, which Crawlee for JavaScript uses, compares these escapes as
# text. A crawler then fetches pages that the site excludes. Protego, the parser of Scrapy, agrees with the RFC.
#
# Seen with robots-parser 3.0.1 (npm) and Protego 0.7.0 (PyPI).
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund robots-parser@3.0.1 >/dev/null 2>&1
python3 -m venv venv
venv/bin/pip install -q 'protego==0.7.0'
cat >pairs.json <<'JSON'
[["/foo/bar/baz", "/foo/bar/baz"], ["/foo/bar/%62%61%7A", "/foo/bar/baz"],
 ["/path/file-with-a-%2A.html", "/path/file-with-a-*.html"], ["/path/foo-%24", "/path/foo-$"]]
JSON
cat >allowed.js <<'JAVASCRIPT'
const robots = require("robots-parser");
const answers = require("./pairs.json").map(([rule, path]) =>
  robots("https://www.example.com/robots.txt", `User-agent: *\nDisallow: ${rule}\n`)
    .isAllowed(`https://www.example.com${path}`, "ExampleBot"));
console.log(JSON.stringify(answers));
JAVASCRIPT
node allowed.js >allowed.json
venv/bin/python - <<'PYTHON'
import json

from protego import Protego

pairs, by_parser = json.load(open("pairs.json")), json.load(open("allowed.json"))
by_protego = [
    Protego.parse(f"User-agent: *\nDisallow: {rule}\n").can_fetch(f"https://www.example.com{path}", "ExampleBot")
    for rule, path in pairs
]
for (rule, path), one, other in zip(pairs, by_parser, by_protego):
    print(f"Disallow: {rule} for {path}: robots-parser allows it: {one}, Protego allows it: {other}")
assert by_parser == [False, True, True, True], by_parser
assert by_protego == [False, False, False, False], by_protego
PYTHON
echo "seen: robots-parser ignores three of four rules"
