#!/usr/bin/env bash
# requests, httpx and memento_client (PyPI) cut the URLs of mementos at a semicolon.
#
# Archives send the URLs of mementos, which contain the original URL, in a Link header (RFC 7089, section 2.2). A path
# may contain semicolons (RFC 3986, section 3.3), as in the session ids of Java servers, and the target of a link ends
# at the character `>` (RFC 8288, section 3). requests and httpx, whose `response.links` clients of archives use, split
# the link at its first semicolon instead, as does the parser of memento_client, which also drops the character before
# it. The rest of the URL becomes a parameter of the link. The client then asks for captures of another page.
#
# Seen with requests 2.34.2, httpx 0.28.1 and memento_client 0.6.1. http-link-header 1.1.4 (npm) is correct.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund http-link-header@1.1.4 >/dev/null 2>&1
python3 -m venv venv
venv/bin/pip install -q 'requests==2.34.2' 'httpx==0.28.1' 'memento_client==0.6.1'
cat >link.js <<'JAVASCRIPT'
const [link] = require("http-link-header").parse(process.argv[2]).rel("memento");
console.log(link.uri);
JAVASCRIPT
memento='http://archive.example/20000620180259/http://a.example.org/shop;jsessionid=1'
header="<$memento>; rel=\"memento\"; datetime=\"Tue, 20 Jun 2000 18:02:59 GMT\""
[ "$(node link.js "$header")" = "$memento" ]
venv/bin/python - "$memento" "$header" <<'PYTHON'
import sys

import httpx
import requests
from memento_client import MementoClient

memento, header = sys.argv[1:]
response = requests.Response()
response.headers["Link"] = header
found = {
    "requests": response.links["memento"]["url"],
    "httpx": httpx.Response(200, headers={"Link": header}).links["memento"]["url"],
    "memento_client": next(iter(MementoClient.parse_link_header(header))),
}
print("sent:", memento)
for name, url in found.items():
    print(f"{name}: {url}")
short = memento.partition(";")[0]
assert found == {"requests": short, "httpx": short, "memento_client": short[:-1]}, found
PYTHON
echo "seen: three clients lose the end of the URL of a memento"
