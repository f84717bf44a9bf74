"""Tests which parts of a request the frontier stores."""

import json
import unittest

import scrapy
from scrapy.http import JsonRequest, Response
from scrapy.utils.request import fingerprint

from scrapy_crawlspace.requests import Codec, Unstorable, group_of, mark, retry_after


class Spider(scrapy.Spider):
    name = "s"

    def parse_more(self, response, **more):
        pass

    def failed(self, failure):
        pass


def codec(pickled=False):
    return Codec(Spider(), fingerprint, pickled)


def again(request, codec):
    item = codec.item(request)
    return codec.request(item.uri, item.payload)


class Requests(unittest.TestCase):
    def test_every_field_comes_back(self):
        given = codec()
        request = scrapy.Request(
            "http://a.test/caf%E9?x=%FF",
            given._spider.parse_more,
            "POST",
            headers={"A": ["1", "2"], "B": b"\xff"},
            body=bytes(range(256)),
            cookies={"c": "d"},
            meta={"depth": 3, "bytes": b"\x00\xff", "tuple": (1, (2,)), "set": {1}, "keys": {1: 2}, "$bytes": 5},
            encoding="latin-1",
            priority=7,
            dont_filter=True,
            errback=given._spider.failed,
            flags=["f"],
            cb_kwargs={"k": None, "text": "caf\xe9 \ud800"},
        )
        for one in (given, codec(pickled=True)):
            read = again(request, one)
            kept = {**request.to_dict(spider=given._spider)}
            self.assertEqual(read.to_dict(spider=one._spider), kept)
            self.assertEqual(fingerprint(read), fingerprint(request))

    def test_other_classes_come_back(self):
        request = JsonRequest("http://a.test/", data={"a": 1})
        read = again(request, codec())
        self.assertIs(type(read), JsonRequest)
        self.assertEqual(read.body, request.body)

    def test_a_plain_request_takes_a_few_bytes(self):
        given = codec()
        request = scrapy.Request("http://a.test/", given._spider.parse_more, meta={"depth": 1})
        payload = given.item(request).payload
        self.assertEqual(json.loads(payload), {"callback": "parse_more", "meta": {"depth": 1}})
        self.assertEqual(len(payload), 44)

    def test_requests_that_cannot_be_stored_are_refused(self):
        given = codec()
        for request in (
            scrapy.Request("http://a.test/", lambda response: None),
            scrapy.Request("http://a.test/", meta={"object": object()}),
            scrapy.Request("http://a.test/", method="POST", body=b"x" * 70_000),
            scrapy.Request("http://a.test/" + "x" * 70_000),
            scrapy.Request("http://a.test/", meta={"download_slot": "\ud800"}),
        ):
            with self.assertRaises(Unstorable):
                given.item(request)
        with self.assertRaises(Unstorable):
            Codec(None, lambda request: b"", False).item(scrapy.Request("http://a.test/"))
        self.assertEqual(again(scrapy.Request("http://a.test/", meta={"o": 1j}), codec(True)).meta, {"o": 1j})

    def test_pickles_are_read_only_if_the_settings_say_so(self):
        item = codec(pickled=True).item(scrapy.Request("http://a.test/"))
        with self.assertRaises(ValueError):
            codec().request(item.uri, item.payload)

    def test_keys_are_fingerprints_unless_filters_are_off(self):
        given = codec()
        request = scrapy.Request("http://a.test/")
        self.assertEqual(given.item(request).key, fingerprint(request))
        loose = request.replace(dont_filter=True)
        self.assertNotEqual(given.item(loose).key, given.item(loose).key)
        start = request.replace(dont_filter=True, meta={"is_start_request": True})
        self.assertEqual(given.item(start).key, fingerprint(request))
        # A retry of a start request is not a start request.
        mark(start, "a.test")
        self.assertNotEqual(given.item(start.copy()).key, fingerprint(request))

    def test_groups_are_hosts_with_ports_unless_the_spider_names_a_slot(self):
        for url, group in (
            ("http://a.test/", "a.test"),
            ("https://A.test:443/", "a.test"),
            ("http://a.test:443/", "a.test:443"),
            ("http://[::1]:81/", "::1:81"),
            ("data:,", "data"),
        ):
            self.assertEqual(group_of(scrapy.Request(url)), group)
        request = scrapy.Request("http://a.test/")
        mark(request, "a.test")
        redirect = request.replace(url="http://b.test/")
        self.assertEqual(group_of(redirect), "b.test")
        chosen = scrapy.Request("http://a.test/", meta={"download_slot": "x"})
        mark(chosen, "x")
        self.assertEqual(group_of(chosen.replace(url="http://b.test/")), "x")
        # Like Scrapy, treat an empty slot as none.
        for slot, group in ((7, "7"), ("", "a.test"), (0, "a.test")):
            self.assertEqual(group_of(scrapy.Request("http://a.test/", meta={"download_slot": slot})), group)
        self.assertEqual(again(chosen, codec()).meta, {"download_slot": "x"})
        self.assertEqual(again(request, codec()).meta, {})

    def test_priority_counts_before_depth(self):
        given = codec()

        def order(priority, depth):
            return given.item(scrapy.Request("http://a.test/", priority=priority, meta={"depth": depth})).depth

        self.assertLess(order(1, 50), order(0, 0))
        self.assertLess(order(0, 0), order(0, 1))
        self.assertLess(order(0, 9), order(-1, 0))
        self.assertEqual([order(10**9, 0), order(-(10**9), 0)], [0, 2**32 - 1])

    def test_retry_after(self):
        def read(value):
            return retry_after(Response("http://a.test/", headers={"Retry-After": value}))

        self.assertEqual(read("3"), 3000)
        self.assertLess(read("Fri, 31 Dec 1999 23:59:59 GMT"), 0)
        self.assertGreater(read("Fri, 31 Dec 2999 23:59:59 GMT"), 10**12)
        for bad in ("soon", "", "-1", "\xff", "9" * 400):
            read(bad)
        self.assertIsNone(read("soon"))
        self.assertIsNone(retry_after(Response("http://a.test/")))


if __name__ == "__main__":
    unittest.main()
