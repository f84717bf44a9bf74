"""Every command has a call, with every option, and its replies have the same values with every client."""

import asyncio
import inspect
import os
import pathlib
import pickle
import re
import unittest
from typing import Any, Dict, List, Set

import redis

import calls
import connect
import crawlspace
from calls import Call, Original, Token
from crawlspace import aio, errors

FAMILIES = {"Frontier": calls.FRONTIER, "Dedupe": calls.DEDUPE, "Tags": calls.TAGS}
CRAWL = b"crawl-1"
PREFIX = {"Frontier": "{f}:", "Dedupe": "{d}:", "Tags": "{t}"}
#: Words that a call never sends, because they have no effect there or are the default.
UNUSED = {"tags.explain": {"RETURN", "BITS", "COUNT", "INDEX", "LINES", "TAGS", "FILE"}}


class Recorded:
    """Makes the calls of a family, replaces placeholders by tokens and records, and keeps the words that were sent."""

    def __init__(self, kind: str, name: str, now: Any = None) -> None:
        self.kind = kind
        self.sent: List[List[Any]] = []
        self.token: Any = None
        self.original: Any = None
        self.client = connect.family(kind, name)(connect.kinds()[kind](), PREFIX[name])
        if now is not None:
            self.client.now = now
        deliver = self.client._server.execute_command

        def send(*words: Any) -> Any:
            self.sent.append(list(words))
            return deliver(*words)

        self.client._server.execute_command = send
        if self.client._url is not None:
            self.client._patient = self.client._server

    def filled(self, value: Any) -> Any:
        if value is Token:
            return self.token
        if value is Original:
            return self.original
        if isinstance(value, (list, tuple)) and type(value) is not crawlspace.Next:
            items = [self.filled(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    def learn(self, value: Any) -> None:
        for one in value if isinstance(value, list) else [value]:
            one = getattr(one, "lease", None) or one
            self.token = getattr(one, "token", None) or self.token
            self.original = getattr(one, "original", None) or (one if type(one).__name__ == "Record" else self.original)

    def run(self, these: List[Call]) -> List[Any]:
        def prepared(name: str, arguments: Any, options: Any) -> Any:
            def make(client: Any) -> Any:
                value = getattr(client, name)(*self.filled(arguments), **{k: self.filled(v) for k, v in options.items()})
                if inspect.isawaitable(value):
                    async def wait() -> Any:
                        found = await value
                        self.learn(found)
                        return found
                    return wait()
                self.learn(value)
                return value
            return make

        return connect.run_all(self.kind, [prepared(*one) for one in these], self.client)


def stable(value: Any) -> Any:
    """Returns a value without figures that differ between two runs."""
    varying = {name: 0 for name in ("memory", "left") if getattr(value, name, None)}
    return value._replace(**varying) if varying else value


def tokens_of(arguments: Any) -> Set[str]:
    """Returns the tokens in the arguments of COMMAND DOCS."""
    found: Set[str] = set()
    for argument in arguments or []:
        if isinstance(argument, list):
            argument = dict(zip(argument[::2], argument[1::2]))
        argument = {key.decode(): value for key, value in argument.items()}
        if "token" in argument:
            found.add(argument["token"].decode())
        found |= tokens_of(argument.get("arguments"))
    return found


class CommandsTest(unittest.TestCase):
    def setUp(self) -> None:
        connect.empty()

    def documented(self) -> Dict[str, Set[str]]:
        r = connect.plain(2)
        names = [name.decode() for name in r.execute_command("COMMAND LIST", "FILTERBY", "MODULE", "crawlspace")]
        names = sorted(name for name in names if name.split(".")[0] in ("chg", "dedupe", "tags"))
        # The server runs these instead of its own commands, which redis-py has.
        stand_ins = ["hget", "hlen", "hscan", "hsetnx", "rename", "renamenx"]
        names = [name for name in names if name.removeprefix("dedupe.") not in stand_ins]
        found = {}
        for name in names:
            _, docs = r.execute_command("COMMAND DOCS", name)
            found[name] = tokens_of(dict(zip(docs[::2], docs[1::2])).get(b"arguments"))
        return found

    def test_every_command_has_a_call_with_every_option(self) -> None:
        sent: Dict[str, Set[str]] = {}
        for name, these in FAMILIES.items():
            runs = [(these, calls.NOW if name == "Frontier" else None)]
            if name == "Frontier":
                runs.append((calls.WAITING, None))
            for table, now in runs:
                connect.empty()
                made = Recorded("RESP3", name, now)
                made.run(table)
                for words in made.sent:
                    texts = {word if isinstance(word, str) else str(word) if isinstance(word, int) else
                             word.decode("latin-1") for word in words}
                    sent.setdefault(words[0].lower(), set()).update(texts)
        documented = self.documented()
        self.assertEqual(set(documented), set(sent))
        missing = {name: tokens - sent[name] - UNUSED.get(name, set()) for name, tokens in documented.items()}
        # The words of states are sent in upper case.
        missing = {name: {token for token in tokens if token.upper() not in sent[name]} for name, tokens in missing.items()}
        self.assertEqual({name: tokens for name, tokens in missing.items() if tokens}, {})

    def test_methods_are_named_after_commands(self) -> None:
        documented = set(self.documented())
        for name, family in (("chg", crawlspace.Frontier), ("dedupe", crawlspace.Dedupe), ("tags", crawlspace.Tags)):
            twin = getattr(aio, family.__name__)
            methods = {m for m in vars(family) if hasattr(getattr(family, m), "__wrapped__")}
            self.assertEqual(methods, {m for m in vars(twin) if hasattr(getattr(twin, m), "__wrapped__")})
            commands = {command.split(".")[1] for command in documented if command.startswith(f"{name}.")}
            self.assertLessEqual(commands, {method.replace("_", "") for method in methods})
            for method in methods:
                self.assertTrue(getattr(family, method).__doc__, method)

    def test_all_clients_return_the_same_values(self) -> None:
        tables = [("Frontier", calls.FRONTIER, calls.NOW), ("Dedupe", calls.DEDUPE, None), ("Tags", calls.TAGS, None)]
        for name, table, now in tables:
            expected = None
            for kind in connect.kinds():
                connect.empty()
                values = [stable(value) for value in Recorded(kind, name, now).run(table)]
                if expected is None:
                    expected = values
                for one, value, wanted in zip(table, values, expected):
                    if one[0] == "info" and name == "Frontier":
                        # Cached figures begin when a frontier is first used after the start of the server.
                        value, wanted = value.uris, wanted.uris
                    self.assertEqual(value, wanted, f"{kind}: {name}.{one[0]}{one[1]}{one[2]}")

    def test_values_have_the_documented_types(self) -> None:
        results = Recorded("RESP3", "Frontier", calls.NOW).run(calls.FRONTIER)
        limits = [why.done_limits for one, why in zip(calls.FRONTIER, results) if one[0] == "why"]
        self.assertEqual(limits, [[crawlspace.replies.DoneLimit(b"texts", 5, 1)], None, None, None])
        values = dict(zip((one[0] for one in calls.FRONTIER), results))
        self.assertIs(type(values["why"].paused), bool)
        self.assertIs(type(values["why"].why), str)
        self.assertEqual((values["check"].wrong_texts, values["check"].wrong_agendas), (None, None))
        damaged = crawlspace.replies.named(crawlspace.replies.FrontierCheck)([b"wrong-texts", 2, b"wrong-agendas", 3])
        self.assertEqual((damaged.wrong_texts, damaged.wrong_agendas), (2, 3))
        self.assertIs(type(values["info"].rate_leases), float)
        self.assertIs(type(values["execution_info"].paused), bool)
        values = dict(zip((one[0] for one in calls.DEDUPE), Recorded("RESP3", "Dedupe").run(calls.DEDUPE)))
        self.assertIs(values["check"].ok, True)
        self.assertEqual(type(values["wacz_open"]), int)

    def test_every_code_word_has_a_class(self) -> None:
        docs = pathlib.Path(os.environ.get("DOCS", pathlib.Path(__file__).parents[3] / "docs/commands"))
        if not docs.is_dir():
            self.skipTest("the pages of the commands are not there")
        words: Set[str] = set()
        for page in docs.glob("*.md"):
            section = page.read_text().partition("\n## Errors")[2].partition("\n## ")[0]
            for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
                words |= set(re.findall(r"`([A-Z]+)\b", row))
        self.assertGreater(len(words), 25)
        for word in words - {"ERR", "MOVED", "ASK"}:
            self.assertEqual(errors.BY_CODE[word].code, word)
            self.assertIs(getattr(crawlspace, errors.BY_CODE[word].__name__), errors.BY_CODE[word])

    def test_nothing_is_sent_for_nothing(self) -> None:
        made = Recorded("RESP3", "Frontier")
        self.assertEqual(made.client.discover("crawl-1", []), [])
        self.assertEqual(made.client.add_uri("crawl-1", []), [])
        self.assertEqual(made.client.add("crawl-1", []), [])
        self.assertEqual(made.client.known("crawl-1", []), [])
        self.assertEqual(made.client.forget("crawl-1", []), 0)
        self.assertEqual(made.client.settle("crawl-1", []), [])
        self.assertEqual(made.sent, [])
        made = Recorded("RESP3", "Dedupe")
        self.assertEqual(made.client.lookup([]), [])
        self.assertEqual(made.client.add("crawl-1", []), 0)
        self.assertEqual(made.client.revisit("crawl-1", []), 0)
        self.assertEqual(made.client.lookup_url([]), [])
        self.assertEqual(made.sent, [])

    def test_wrong_arguments_are_refused(self) -> None:
        frontier = crawlspace.Frontier(connect.URL, "{f}:")
        for wrong in (
            lambda: frontier.known("crawl-1", "https://one.text/"),
            lambda: frontier.discover(1, [("a.com", "b")]),
            lambda: crawlspace.Tags(connect.URL, "t").filter(["a"], pont="all"),
        ):
            self.assertRaises(TypeError, wrong)
        for wrong in (
            lambda: frontier.discover("crawl-1", [("a.com", "b"), ("a.com", "c", 0, 0, "key")]),
            lambda: frontier.add_uri("crawl-1", [("a.com", "c", 0, 0, "key")]),
            lambda: frontier.drop(),
            lambda: frontier.list(state="lazy"),
            lambda: frontier.pause("a.com", execution="crawl-1"),
            lambda: crawlspace.Dedupe(connect.URL, "d").requires(),
        ):
            self.assertRaises(ValueError, wrong)
        frontier.close()

    def test_an_error_has_its_code_word(self) -> None:
        frontier = crawlspace.Frontier(connect.plain(), "{f}:")
        with self.assertRaises(crawlspace.NoChg) as raised:
            frontier.why("nobody.org")
        self.assertEqual(raised.exception.code, "NOCHG")
        self.assertIn("nobody.org", str(raised.exception))
        with self.assertRaises(crawlspace.Error) as raised:
            frontier.limit("a.com", parallel=0)
        self.assertEqual(raised.exception.code, "ERR")
        connect.plain().config_set("maxmemory", "1")
        try:
            with self.assertRaises(crawlspace.Oom) as raised:
                crawlspace.Dedupe(connect.plain(), "{d}:").begin("crawl-1")
            self.assertEqual(raised.exception.code, "OOM")
        finally:
            connect.plain().config_set("maxmemory", "0")

    def test_unsuitable_clients_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "decode_responses"):
            crawlspace.Frontier(connect.plain(decode_responses=True), "{f}:")
        with self.assertRaisesRegex(ValueError, "decode_responses"):
            crawlspace.Frontier(f"{connect.URL}?decode_responses=True", "{f}:")
        with self.assertRaisesRegex(TypeError, "redis.asyncio.Redis|redis.asyncio"):
            aio.Frontier(connect.plain(), "{f}:")
        with self.assertRaises(TypeError):
            crawlspace.Frontier(redis.asyncio.Redis(port=connect.PORT), "{f}:")

    def test_messages_say_what_to_do(self) -> None:
        from crawlspace.commands import Command, chg, same

        frontier, index = crawlspace.Frontier(connect.URL, "{f}:"), crawlspace.Dedupe(connect.URL, "{d}:")
        with self.assertRaisesRegex(crawlspace.Error, "does not know CHG.NONE: load the module"):
            frontier._run(Command(["CHG.NONE", b"{f}:"], same))
        for items in (["https://a.com/"], "https://a.com/", ("a.com", "https://a.com/"), [("a.com",)], [None]):
            with self.assertRaisesRegex(TypeError, r"expected Item or a tuple \(chg, uri, at, depth, key, payload\)|NoneType"):
                frontier.discover(CRAWL, items)
        for call, message in (
            (lambda: frontier.settle(CRAWL, ["https://a.com/"]), "Settlement or a tuple"),
            (lambda: index.add(CRAWL, (calls.HASHES[0], calls.DATE, calls.URL, 1)), "Response or a tuple"),
            (lambda: index.add(CRAWL, [(calls.HASHES[0], calls.DATE, calls.URL, None)]), "argument 9|argument 10"),
            (lambda: frontier.next(lease=True), "argument 3 of CHG.NEXT is True"),
            (lambda: frontier.send([chg.info(b"{f}:"), chg.next(b"{f}:", lease=True)]), "argument 3 of CHG.NEXT is True"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                call()
        index.close()
        frontier.close()
        with self.assertRaisesRegex(ValueError, "redis://"):
            crawlspace.Frontier("", "{f}:")
        admin = connect.plain()
        admin.config_set("requirepass", "secret")
        try:
            for url in (connect.URL, connect.URL.replace("//", "//:wrong@")):
                with crawlspace.Frontier(url, "{f}:") as frontier:
                    with self.assertRaisesRegex(redis.AuthenticationError, "redis://USER:PASSWORD@HOST:PORT"):
                        frontier.info()
        finally:
            admin.config_set("requirepass", "")
            admin.close()

    def test_a_client_of_a_url_can_be_pickled(self) -> None:
        frontier = crawlspace.Frontier(connect.URL, "{f}:", patience=3)
        copy = pickle.loads(pickle.dumps(frontier))
        self.assertEqual((copy.prefix, copy.patience, copy.info().uris), (b"{f}:", 3, 0))
        copy.close()
        with self.assertRaisesRegex(TypeError, "create it from a URL"):
            pickle.dumps(crawlspace.Frontier(connect.plain(), "{f}:"))

    def test_several_commands_take_one_round_trip(self) -> None:
        from crawlspace.commands import dedupe

        for kind in ("RESP2", "RESP3", *(["cluster RESP3"] if connect.CLUSTER_PORT else [])):
            connect.empty()
            index = crawlspace.Dedupe(connect.kinds()[kind](), "{d}:")
            values = index.send(
                [
                    dedupe.add(b"{d}:", "crawl-1", [(calls.HASHES[0], calls.DATE, calls.URL, 1)]),
                    dedupe.commit(b"{d}:", "nothing"),
                    dedupe.add(b"{d}:", "crawl-1", []),
                    dedupe.revisit(b"{d}:", "crawl-1", [(calls.HASHES[0], 1)]),
                    dedupe.lookup(b"{other}:", [calls.HASHES[0]]),
                ]
            )
            self.assertEqual([values[0], *values[2:]], [1, 0, 1, [None]])
            self.assertIsInstance(values[1], crawlspace.NoCrawl)


if __name__ == "__main__":
    unittest.main()
