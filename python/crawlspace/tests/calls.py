"""Calls of every command with every option, in an order in which all of them succeed."""

from typing import Any, Dict, List, Tuple

from crawlspace import Item, Next, Response, Revisit

#: Simulated time, so that replies are reproducible.
NOW = 1_700_000_000_000

HASHES = [f"sha256:{digit * 64}" for digit in "0123456789ab"]
DATE = "20260319102015123"
URL = b"https://example.com/caf\xe9"
RECORD = ("crawl-1", 0, DATE, URL, 5120)


class Token:
    """Placeholder for the token in the last reply with a token."""


class Original:
    """Placeholder for the record in the last reply with a record."""


Call = Tuple[str, Tuple[Any, ...], Dict[str, Any]]


def call(name: str, *arguments: Any, **options: Any) -> Call:
    return name, arguments, options


FRONTIER: List[Call] = [
    # In plain storage.
    call("add", "old", [("plain.org", 0), (b"plain-\xff.org", NOW)]),
    call("add", "old", [("plain.org", 0)], seq=("me", 7)),
    call("list", state="waiting", count=10),
    call("next", lease=60_000),
    call("release", "plain.org", Token, at=NOW + 10, done="old", count=1),
    call("drop", "old"),
    call("pack"),
    call("unpack"),
    call("pack"),
    call("info"),
    # Full leases, keys and payloads.
    call("space", "crawl-1", bits=96, share="shared"),
    call("discover", "crawl-1", [Item("a.com", URL, 0, 1), ("a.com", "https://a.com/2")], weight=2),
    call("discover", "crawl-1", [Item("b.com", "https://b.com/", key="k" * 20)], fresh=1000),
    call("discover", "crawl-1", [Item("c.com", "https://c.com/", payload=b"\x00\xff")]),
    call("discover", "crawl-1", [Item("d.com", "https://d.com/", key="d", payload="p"), ("d.com", "x", 0, 0, "e", b"")]),
    call("known", "crawl-1", [URL, "k" * 20, "nothing"]),
    call("count", "crawl-1"),
    call("count", "crawl-1", group="a.com"),
    call("list"),
    call("uris", "a.com", cursor="0", count=1),
    call("uris", "b.com"),
    call("urls", "crawl-1", count=10),
    call("urls", "crawl-1", state="leased", cursor="0"),
    call("urls", "crawl-1", state="queued"),
    call("space", "texts", keep_text=True),
    call("settle", "texts", [("a.com", URL)]),
    call("urls", "texts", state="done"),
    call("urls", "texts", state="givenup"),
    call("limit", "a.com", done=5, execution="texts"),
    call("why", "a.com"),
    call("next", group="c.com", uris=1),
    call("why", "c.com"),
    call("release", "c.com", Token, delay=0, retry=0, payload=b"again\xff"),
    call("next", uris=2, execution="crawl-1", lease=60_000, count=1),
    call("extend", "a.com", Token, 90_000),
    call("release", "a.com", Token, elapsed=300, factor=2, min=1000, max=5000, crawl_delay=10, retry_after=2000, status=200,
         done="crawl-1", next=Next(lease=1000, uris=1, gate=5, execution="crawl-1")),
    call("done", "b.com", Token, "crawl-1", ["k" * 20]),
    call("next", group="c.com", uris=1),
    call("release", "c.com", Token, elapsed=1, later=5000),
    call("done", "c.com", Token, "crawl-1"),
    call("known", "crawl-1", [URL, "k" * 20]),
    call("settle", "crawl-1", [("e.com", "https://e.com/", NOW + 5), ("a.com", URL)], status=301),
    call("settle", "crawl-1", [("e.com", "https://e.com/", NOW + 5, b"new\xff")]),
    call("forget", "crawl-1", [URL]),
    call("forget", "crawl-1", group="a.com", before=NOW + 10**9, state="done"),
    call("forget", "crawl-1", state="givenup"),
    call("add_uri", "crawl-1", [("f.com", URL), Item("f.com", "https://f.com/", 0, 2)], weight=3),
    call("limit", "f.com", parallel=2, gap=0, delay=5, budget=10),
    call("group", "10.0.0.1", ["f.com", "e.com"]),
    call("why", "f.com"),
    call("block", "f.com", NOW + 1000),
    call("why", "f.com"),
    call("pause", "f.com"),
    call("pause", execution="crawl-1"),
    call("execution_info", "crawl-1"),
    call("pause"),
    call("info"),
    call("resume"),
    call("resume", execution="crawl-1"),
    call("resume", "f.com"),
    call("execution_info", "crawl-1"),
    call("move", "f.com", "g.com"),
    call("sweep", limit=10),
    call("list", state="ready"),
    call("list", state="busy", cursor="0"),
    call("list", state="freed"),
    call("expired", count=10),
    call("check"),
    call("repair"),
    call("drop", group="g.com"),
    call("drop", "crawl-1"),
    call("forget", "crawl-1"),
]

#: Calls that cannot have simulated time.
WAITING: List[Call] = [
    call("pack"),
    call("discover", "crawl-1", [("a.com", URL)]),
    call("next", block=10, gate=0, uris=1),
    call("done", "a.com", Token, "crawl-1"),
    call("space", "crawl-2", bits=128, keep_text=False),
    call("next", block=1),
    call("discover", "crawl-1", [("b.com", "https://b.com/")]),
    call("next", block=10),
    call("release", "b.com", Token, delay=0, done="crawl-1", next=Next(block=1)),
]

DEDUPE: List[Call] = [
    call("profile", "browsertrix"),
    call("profile", "document"),
    call("profile"),
    call("begin", "crawl-1", visible=True),
    call("begin", "crawl-1"),
    call("wacz_open", "crawl-1", b"caf\xe9.wacz"),
    call("add", "crawl-1", [Response(HASHES[0], DATE, URL, 5120), (HASHES[1], DATE, "https://example.com/b", 100, 0)]),
    call("add", "crawl-1", [Response(HASHES[2], DATE, URL, 5120)], earliest=True, seq=("me", 7)),
    call("add", "crawl-1", [Response(HASHES[2], DATE, URL, 5120)], seq=("me", 7)),
    call("claim", "crawl-1", HASHES[3], 60_000),
    call("claim", "crawl-1", HASHES[3], 60_000, block=1),
    call("add", "crawl-1", [Response(HASHES[3], DATE, URL, 5120)], token=Token),
    call("claim", "crawl-1", HASHES[4], 60_000),
    call("unclaim", HASHES[4], Token),
    call("unclaim", HASHES[4], Token),
    call("claim", "crawl-1", HASHES[0], 1000, with_wacz=True),
    call("claim", "crawl-1", HASHES[0], 1000, as_text=True),
    call("revisit", "crawl-1", [Revisit(HASHES[0], 620, Original), (HASHES[1], 50)], ref="uuid-1"),
    call("revisit", "crawl-1", [(HASHES[0], 620)], no_ref=True, seq=("me", 8)),
    call("crawls"),
    call("wacz_close", "crawl-1", 0, "new.wacz", "sha256:" + "f" * 64, 10_000, rename=True),
    call("wacz_open", "crawl-1", "second.wacz"),
    call("wacz_list", "crawl-1"),
    call("urls", True),
    call("commit", "crawl-1"),
    call("lookup", [HASHES[0], HASHES[9]]),
    call("lookup", [HASHES[0]], crawl="crawl-2"),
    call("lookup_with_wacz", [HASHES[0], HASHES[9]], crawl="crawl-2"),
    call("lookup_text", [HASHES[0], HASHES[9]], crawl="crawl-2"),
    call("lookup_url", [URL, "https://example.com/"], crawl="crawl-1", limit=10, before="20270101000000"),
    call("revisit", "crawl-2", [Revisit(HASHES[0], 620, Original)], ref="uuid-2"),
    call("requires", "crawl-2"),
    call("requires", ref="uuid-2"),
    call("requires", refs=[("crawl-1", 0)], transitive=True),
    call("requires_json", "crawl-2"),
    call("required_by", "crawl-1"),
    call("stats", samples=4),
    call("crawl_stats", "crawl-1"),
    call("commit", "crawl-2"),
    call("crawls", state="committed"),
    call("crawls", state="uncommitted"),
    call("crawls", state="unlisted"),
    call("retain", ["crawl-1"]),
    call("check"),
    call("repair"),
    call("pack"),
    call("unpack"),
    call("urls", False),
    call("add", "crawl-3", [Response(HASHES[5], DATE, URL, 1)]),
    call("cancel", "crawl-3"),
    call("retain", ["crawl-1"], purge=True),
    call("remove", ["crawl-1"]),
    call("stats"),
]

LINES = ["dir/ARCHIVEIT-1068-A.warc.gz", b"ARCHIVEIT-1069-\xff.warc.gz"]
FILTERS = ["filename:ARCHIVEIT.*", "!filename:.*nothing"]
CDX = "com,example)/ 20260319102015 http://example.com/ text/html 200 AAAA - - 100 200 ARCHIVEIT-1068-A.warc.gz"

KINDS = ("record", "file", "tag")

TAGS: List[Call] = [
    call("rule_set", "collection", "filename", r"ARCHIVEIT-(\d+)-", ["coll:$1"]),
    call("rules"),
    call("load", "tag", "replace", [("coll:1068", ["org:77"]), ("coll:1069", ["org:77", "private"])]),
    call("load", "tag", "merge", [("coll:1068", ["more"])]),
    call("load", "tag", "set", [("coll:1070", ["org:78"])]),
    call("load", "record", "stage"),
    call("swap", "record", discard=True),
    call("load", "record", "stage", [("com,example)/ 20260319102015 a.warc.gz 0", ["one", b"\xff"])]),
    call("swap", "record", expect=1),
    call("add", "file", b"ARCHIVEIT-1069-\xff.warc.gz", ["public", "org:77"]),
    call("get", "file", b"ARCHIVEIT-1069-\xff.warc.gz"),
    call("get", "file", b"ARCHIVEIT-1069-\xff.warc.gz", all=True),
    call("rem", "file", b"ARCHIVEIT-1069-\xff.warc.gz", ["org:77"]),
    *(call("add", kind, "nothing", ["x"]) for kind in KINDS),
    *(call("get", kind, "nothing") for kind in KINDS),
    *(call("rem", kind, "nothing", ["x"]) for kind in KINDS),
    *(call("load", kind, "stage") for kind in KINDS),
    *(call("swap", kind, discard=True) for kind in KINDS),
    call("point_set", "all", "coll:* & !private"),
    call("point_set", r"coll-(\d+)", "coll:$1"),
    call("points"),
    call("point", "coll-1068"),
    call("filter", LINES, point="all", format="file"),
    call("filter", LINES, where="org:77", format="file", skip=1, limit=1, bad_lines="error"),
    call("filter", LINES, filters=FILTERS, dialect="outback", format="file", bad_lines="drop"),
    call("filter", [CDX], filters=["status:200"], dialect="outback", format="cdx", collapse="urlkey"),
    call("filter", [CDX], filters=["status:200"], dialect="ia", format="auto"),
    call("filter", [CDX], filters=["=status:200"], dialect="pywb"),
    call("filter", ["com,example)/ 20260319102015 {}"], format="cdxj"),
    call("filter", ["com,example)/ 20260319102015 a.warc.gz 0"], format="record"),
    call("filter_text", b"ARCHIVEIT-1068-A.warc.gz\nARCHIVEIT-1069-B.warc.gz\n", point="all", format="file"),
    call("filter_index", LINES, point="all", format="file"),
    call("filter_bits", LINES, point="all", format="file"),
    call("filter_count", LINES, point="all", format="file"),
    call("filter_count", b"ARCHIVEIT-1068-A.warc.gz\n", point="all", format="file"),
    call("filter_tags", LINES, point="all", format="file"),
    call("explain", LINES[0], point="all", where="org:77 | x", format="file"),
    call("explain", CDX, filters=["status:200"], dialect="outback", format="auto", collapse="urlkey", skip=0, limit=1,
         bad_lines="error"),
    *(call("explain", CDX, format="cdx", dialect=dialect, bad_lines="drop") for dialect in ("ia", "pywb")),
    call("explain", "com,example)/ 20260319102015 {}", format="cdxj"),
    call("explain", "com,example)/ 20260319102015 a.warc.gz 0", format="record"),
    call("list", "org:77", prefix="coll:", cursor="0", count=10),
    call("scan", "tag"),
    call("scan", "record", "0", prefix="com", count=5),
    call("scan", "file"),
    call("info"),
    call("point_del", "all"),
    call("rule_del", "collection"),
]
