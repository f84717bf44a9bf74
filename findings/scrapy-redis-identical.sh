#!/usr/bin/env bash
# scrapy-redis 0.9.1 (PyPI) merges identical requests in its queue, even with `dont_filter`.
#
# `dont_filter=True` tells Scrapy to send a request although an identical one was sent before, for example to ask a page
# again later. The default queue of scrapy-redis is a Redis sorted set whose members are the serialised requests. A set
# holds each member once, so a second identical request is lost if the first one is still waiting. The members of
# one score are sorted by their bytes, so requests of equal priority are not sent in the order in which they were
# scheduled either. The FIFO queue of scrapy-redis keeps both requests and their order.
#
# Seen with scrapy-redis 0.9.1 and Scrapy 2.19.0, and fakeredis 2.41.0 as the server.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q 'scrapy-redis==0.9.1' 'scrapy==2.19.0' 'fakeredis==2.41.0'
venv/bin/python - <<'PYTHON'
import fakeredis
import scrapy
from scrapy_redis.defaults import SCHEDULER_QUEUE_CLASS
from scrapy_redis.queue import FifoQueue, PriorityQueue


class Spider(scrapy.Spider):
    name = "example"


def sent(queue_class, paths):
    queue = queue_class(fakeredis.FakeRedis(), Spider(), "%(spider)s:requests")
    for path in paths:
        queue.push(scrapy.Request(f"https://example.com{path}", dont_filter=True))
    return [queue.pop().url.removeprefix("https://example.com") for _ in range(len(queue))]


assert SCHEDULER_QUEUE_CLASS == "scrapy_redis.queue.PriorityQueue"
scheduled = ["/status", "/b", "/a", "/status"]
found = {kind.__name__: sent(kind, scheduled) for kind in (FifoQueue, PriorityQueue)}
print("scheduled:", *scheduled)
for name, paths in found.items():
    print(f"{name}:", *paths)
assert found == {"FifoQueue": scheduled, "PriorityQueue": ["/a", "/b", "/status"]}, found
PYTHON
echo "seen: the default queue loses the second of two identical requests"
