"""Tests with redis-py that examples of single commands cannot cover.

Prints `ok <scene>` after each scene. A scene prints a line to request an action of the test, and reads a line
when the action is complete: `claims <n>` (wait until n clients wait for a claim), `waits <prefix in hex>`
(wait until a client waits for a lease), `config <name> <value>`, or `begin|keys|finish <prefix in hex>` (move
a slot).
"""

import hashlib
import os
import sys
import threading

import redis

from connect import code, connect, whole

CLUSTER = "CLUSTER" in os.environ
DATE = "20260319102015123"
URL = "https://example.com/"

r = connect()


def call(*words, on=r):
    return on.execute_command(*words)


def please(*words):
    print(*words, flush=True)
    answer = sys.stdin.readline().strip()
    assert answer == "done", answer


def meanwhile(*words):
    """Sends a command on a separate connection, and returns a function that waits for the reply."""
    outcome = []

    def run():
        try:
            with connect() as other:
                outcome.append(call(*words, on=other))
        except redis.RedisError as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def reply():
        thread.join(30)
        return outcome[0]

    return reply


def digest(n):
    return "sha256:" + hashlib.sha256(str(n).encode()).hexdigest()


def add(prefix, crawl, *numbers):
    records = [word for n in numbers for word in (digest(n), 0, DATE, URL + str(n), 1000 + n)]
    return call("DEDUPE.ADD", prefix, crawl, *records)


def record(crawl, n):
    return [crawl.encode(), 0, DATE.encode(), (URL + str(n)).encode(), 1000 + n]


def fails(*words, on=r):
    try:
        reply = call(*words, on=on)
    except redis.ResponseError as error:
        return error
    raise AssertionError(f"{words} gave {reply}")


def any_bytes_go_in_and_come_out():
    p, hash_, crawl = b"{\xfe}\xff:", b"opaque \xff\xfe\x80 digest", b"cr\xffwl"
    name, url = b"caf\xe9.wacz", b"https://example.com/caf\xe9 \xff"
    assert call("DEDUPE.WACZOPEN", p, crawl, name) == 0
    assert call("DEDUPE.ADD", p, crawl, hash_, 0, DATE, url, 5) == 1
    assert call("DEDUPE.COMMIT", p, crawl) == [1, 0]
    known = call("DEDUPE.LOOKUP", p, "WITHWACZ", hash_, digest(0))
    assert known == [[crawl, 0, DATE.encode(), url, 5, name], None], known
    crawls = call("DEDUPE.CRAWLS", p)
    assert list(crawls)[0] == crawl, crawls
    assert call("CHG.ADDURI", p, crawl, b"h\xffst", 0, 0, url) == [1]
    (lease,) = call("CHG.NEXT", p)
    assert (lease[0], lease[5], lease[6]) == (b"h\xffst", crawl, url), lease
    assert call("TAGS.ADD", p + b"tags", "FILE", name, b"t\xffg") == 1
    assert call("TAGS.GET", p + b"tags", "FILE", name) == [b"t\xffg"]


def a_pipeline_has_errors_in_their_place():
    p = "{pipeline}:"
    batch = r.pipeline(transaction=False)
    for n in range(100):
        batch.execute_command("DEDUPE.ADD", p, "a", digest(n), 0, DATE, URL + str(n), 1000 + n)
    batch.execute_command("DEDUPE.COMMIT", p, "nobody")
    batch.execute_command("DEDUPE.LOOKUP", p, "CRAWL", "a", digest(7), digest(100))
    *added, error, known = batch.execute(raise_on_error=False)
    assert added == [1] * 100
    assert code(error) == "NOCRAWL", error
    assert known == [record("a", 7), None], known


def a_transaction_waits_for_nothing():
    p = "{transaction}:"
    batch = r.pipeline(transaction=True)
    batch.execute_command("DEDUPE.ADD", p, "a", digest(1), 0, DATE, URL + "1", 1001)
    batch.execute_command("DEDUPE.COMMIT", p, "a")
    batch.execute_command("DEDUPE.COMMIT", p, "nobody")
    batch.execute_command("DEDUPE.LOOKUP", p, digest(1))
    batch.execute_command("CHG.NEXT", p, "BLOCK", 0)
    added, committed, error, known, lease = batch.execute(raise_on_error=False)
    assert (added, committed, known, lease) == (1, [1, 0], [record("a", 1)], None)
    assert code(error) == "NOCRAWL", error


def who_waits_for_a_lease_gets_it():
    f = "{lease}:"
    wait = meanwhile("CHG.NEXT", f, "LEASE", 60_000, "BLOCK", 0)
    please("waits", f.encode().hex())
    assert call("CHG.ADDURI", f, "crawl-1", "a.example", 0, 0, "https://a.example/") == [1]
    ((chg, token, deadline, due, count, execution, uri),) = wait()
    assert (chg, count, execution, uri) == (b"a.example", 1, b"crawl-1", b"https://a.example/")
    assert type(token) is type(deadline) is type(due) is int

    wait = meanwhile(
        "CHG.RELEASE", f, chg, token, "ELAPSED", 5, "MIN", 60_000, "DONE", execution, "NEXT", "BLOCK", 0
    )
    please("waits", f.encode().hex())
    assert call("CHG.ADD", f, "crawl-1", "b.example", 0) == [1]
    due, lease = wait()
    assert type(due) is int and (lease[0], lease[5], lease[6]) == (b"b.example", None, None), lease
    assert call("CHG.NEXT", f, "BLOCK", 1) is None


def who_waits_for_a_claim_learns_what_comes_of_it():
    p = "{claim}:"
    state, token = call("DEDUPE.CLAIM", p, "a", digest(1), "PX", 60_000)
    assert state == b"CLAIMED"
    state, holder, left = call("DEDUPE.CLAIM", p, "a", digest(1), "PX", 60_000)
    assert (state, holder) == (b"PENDING", b"a") and 0 < left <= 60_000
    wait = meanwhile("DEDUPE.CLAIM", p, "a", digest(1), "PX", 60_000, "BLOCK", 0)
    please("claims", 1)
    assert call("DEDUPE.ADD", p, "a", "TOKEN", token, digest(1), 0, DATE, URL + "1", 1001) == 1
    assert wait() == [b"DUPE", record("a", 1)]

    assert call("DEDUPE.CLAIM", p, "a", digest(2), "PX", 60_000)[0] == b"CLAIMED"
    wait = meanwhile("DEDUPE.CLAIM", p, "a", digest(2), "PX", 60_000, "BLOCK", 0)
    please("claims", 1)
    assert call("DEDUPE.CANCEL", p, "a") == 1
    assert code(wait()) == "CANCELED"


def errors_begin_with_their_code_word():
    p = "{errors}:"
    add(p, "a", 1)
    call("DEDUPE.COMMIT", p, "a")
    add(p, "open", 2)
    call("CHG.ADD", p, "crawl-1", "a.example", 0)
    ((_, token, *_),) = call("CHG.NEXT", p, "LEASE", 60_000)
    call("SET", "{errors}text", "x")
    call("TAGS.ADD", "{errors}tags", "TAG", "b", "c")
    call("SET", "{errors}other:allhashes", "x")
    tags = "{errors}tags"
    _, claimed = call("DEDUPE.CLAIM", p, "a", digest(3), "PX", 60_000)
    cases = [
        ("NOCRAWL", "DEDUPE.COMMIT", p, "nobody"),
        ("BADCRAWL", "DEDUPE.WACZOPEN", p, "a:counts", "w"),
        ("BADHASH", "DEDUPE.LOOKUP", p, "short"),
        ("NOHASH", "DEDUPE.REVISIT", p, "a", digest(9), 5),
        ("STALE", "DEDUPE.UNCLAIM", p, digest(3), claimed + b"1"),
        ("COMMITTED", "DEDUPE.CANCEL", p, "a"),
        ("UNCOMMITTED", "DEDUPE.REMOVE", p, "open"),
        ("HASCRAWLS", "DEDUPE.PROFILE", p, "browsertrix"),
        ("NOCHG", "CHG.WHY", p, "nowhere.example"),
        ("STALE", "CHG.EXTEND", p, "a.example", token + 1, 1000),
        ("LEASED", "CHG.MOVE", p, "a.example", "b.example"),
        ("NOPOINT", "TAGS.FILTER", tags, "POINT", "none", "LINES", "x"),
        ("SYNTAX", "TAGS.POINTSET", tags, "p", "a & "),
        ("BADRE", "TAGS.RULESET", tags, "r", "filename", "(", "t"),
        ("BADLINE", "TAGS.FILTER", tags, "LINES", "x"),
        ("BADFIELD", "TAGS.LIST", tags, "status=200"),
        ("CYCLE", "TAGS.ADD", tags, "TAG", "c", "b"),
        ("NOSTAGE", "TAGS.SWAP", tags, "TAG"),
        ("WRONGTYPE", "TAGS.GET", "{errors}text", "TAG", "b"),
        ("WRONGTYPE", "DEDUPE.LOOKUP", "{errors}other:", digest(1)),
        ("BADPREFIX", "DEDUPE.STATS", "{" + 1025 * "p" + "}"),
        ("ERR", "CHG.ADD", p, "crawl-1", "a.example", "tomorrow"),
    ]
    for word, *command in cases:
        error = fails(*command)
        assert code(error) == word, whole(error)
        assert len(str(error).split(" ")) > 3, "a sentence: " + whole(error)
        # redis-py removes a code word from the message if it has an exception class for this code word.
        assert (word == "ERR") == (not str(error).startswith(word)), whole(error)
    limited = connect(username="limited", password="any")
    error = fails("DEDUPE.COMMIT", p, "a", on=limited)
    assert code(error) == "NOPERM" and isinstance(error, redis.exceptions.NoPermissionError)
    please("config", "maxmemory", 1)
    error = fails("DEDUPE.WACZOPEN", p, "b", "w")
    please("config", "maxmemory", 0)
    assert code(error) == "OOM" and isinstance(error, redis.exceptions.OutOfMemoryError)


def a_prefix_without_hash_tag_is_refused():
    error = fails("DEDUPE.STATS", "coll-42:")
    assert code(error) == "BADPREFIX" and "hash tag" in str(error), error
    assert call("TAGS.INFO", "archive"), "a key needs none"


def a_slot_that_moves_is_found():
    p = "{moving}:"
    prefix = p.encode().hex()
    add(p, "a", *range(20))
    call("DEDUPE.COMMIT", p, "a")
    add(p, "b", 100)
    call("CHG.ADDURI", p, "crawl-1", "a.example", 0, 0, URL)

    def lookups():
        batch = r.pipeline(transaction=False)
        batch.execute_command("DEDUPE.LOOKUP", p, digest(8))
        batch.execute_command("DEDUPE.LOOKUP", p, digest(9))
        return batch.execute()

    def assert_refused(*words):
        """Checks that the server replies with TRYAGAIN, and that the client retries until its limit."""
        try:
            reply = call(*words)
        except redis.exceptions.ClusterError as error:
            assert str(error) == "TTL exhausted.", error
        else:
            raise AssertionError(f"{words} replied {reply}")

    please("begin", prefix)
    assert call("DEDUPE.LOOKUP", p, digest(7)) == [record("a", 7)], "nothing has left"
    assert_refused("CHG.ADDURI", p, "crawl-1", "a.example", 0, 0, URL)
    please("keys", prefix)
    assert_refused("DEDUPE.LOOKUP", p, digest(7))
    please("finish", prefix)
    assert call("DEDUPE.LOOKUP", p, digest(7)) == [record("a", 7)]
    assert lookups() == [[record("a", 8)], [record("a", 9)]]
    assert add(p, "b", 100) == 0
    assert add(p, "b", 101) == 1
    assert call("CHG.ADDURI", p, "crawl-1", "a.example", 0, 0, URL) == [1]
    assert call("DEDUPE.COMMIT", p, "b") == [2, 0]
    ((chg, *_),) = call("CHG.NEXT", p)
    assert chg == b"a.example"


SCENES = [
    any_bytes_go_in_and_come_out,
    a_pipeline_has_errors_in_their_place,
    a_transaction_waits_for_nothing,
    who_waits_for_a_lease_gets_it,
    who_waits_for_a_claim_learns_what_comes_of_it,
    errors_begin_with_their_code_word,
]
if CLUSTER:
    SCENES += [a_prefix_without_hash_tag_is_refused, a_slot_that_moves_is_found]

print("redis-py", redis.__version__, "with hiredis" if redis.utils.HIREDIS_AVAILABLE else "alone", flush=True)
for scene in SCENES:
    scene()
    print("ok", scene.__name__, flush=True)
