"""The two steps that the plug-in adds to warcprox's chain: one before a record is written, and one after it."""

import queue

import crawlspace
import warcprox
import warcprox.dedup
import warcprox.warcproxy
from crawlspace.commands import dedupe

from .index import LOG, PAUSE, UNSPECIFIED, Original, Server, Settings, Unreachable, digits

#: Maximum number of captures that are looked up or added in one round trip.
MAX_BATCH = 500

#: Seconds for which a step waits for the next capture before it checks whether it should stop.
IDLE = 0.5

#: Milliseconds for which a capture waits in the server until another capture of its payload has been added.
WAIT_MS = 200


class _Step(warcprox.BasePostfetchProcessor):
    """A step that processes all captures that have arrived, in one batch."""

    def __init__(self, options, settings):
        super().__init__(options)
        self.settings = settings
        self.server = Server(settings)
        #: Captures that this step is processing; warcprox counts them in its status.
        self.batch = []

    def _arrived(self, wait):
        """Returns the captures that have arrived, as many as fit into the batch."""
        arrived = []
        try:
            while len(self.batch) + len(arrived) < MAX_BATCH:
                arrived.append(self.inq.get(block=wait and not arrived, timeout=IDLE))
        except queue.Empty:
            pass
        return arrived

    def _pass_on(self, recorded_url):
        if self.outq:
            self.outq.put(recorded_url)


class Dedup(_Step, warcprox.dedup.DedupableMixin):
    """Looks payloads up, and claims the new ones. This step also inserts the step that adds records.

    This class is the plug-in of warcprox: ``--plugin warcprox_crawlspace.Dedup``.
    """

    CHAIN_POSITION = "early"

    _refused = False

    def __init__(self, options=None, controller=None):
        try:
            if controller is None:
                raise ValueError("this version of warcprox does not pass its controller to plug-ins: use a newer one")
            if controller.dedup_db is not None:
                raise ValueError("warcprox's own dedupe is enabled: disable it with --dedup-db-file /dev/null")
            settings = Settings()
        except ValueError as error:
            # After any error, warcprox calls the constructor again with fewer arguments; log only the first error.
            if controller is not None or not Dedup._refused:
                LOG.critical("%s", error)
            Dedup._refused = True
            raise SystemExit(1) from error
        super().__init__(options, settings)
        warcprox.dedup.DedupableMixin.__init__(self, options)
        chain = controller._postfetch_chain
        after = chain.index(controller.warc_writer_processor) + 1
        chain.insert(after, Storer(options, settings))

    def _get_process_put(self):
        arrived = self._arrived(wait=not self.batch)
        if not arrived and not self.batch:
            raise queue.Empty
        for recorded_url in arrived:
            if self._is_deduped(recorded_url):
                recorded_url.crawlspace = _Capture(recorded_url, self.settings)
                self.batch.append(recorded_url)
            else:
                self._pass_on(recorded_url)
        if not self.batch:
            return
        asked, self.batch = self.batch, []
        try:
            # If no other capture has arrived, the server may wait until the payload of the first one has been added.
            self._ask(asked, waits=not arrived)
        except Unreachable as error:
            LOG.error("%s: %s captures are archived without dedupe", error, len(asked))
        except Exception:
            LOG.critical("%s captures are archived without dedupe", len(asked), exc_info=True)
        for recorded_url in asked:
            if recorded_url.crawlspace.is_pending:
                self.batch.append(recorded_url)
            else:
                self._pass_on(recorded_url)

    def _is_deduped(self, recorded_url):
        return (
            not isinstance(recorded_url, warcprox.warcproxy.FailedUrl)
            and recorded_url.response_recorder
            and recorded_url.payload_digest
            and self.should_dedup(recorded_url)
        )

    def _ask(self, asked, waits):
        """Looks all captures up in one round trip, and releases unneeded claims in a second one."""
        commands = []
        for recorded_url in asked:
            capture = recorded_url.crawlspace
            capture.is_pending = False
            commands += capture.questions(waits and not commands)
        replies = iter(self.server.send(commands))
        needless = []
        for recorded_url in asked:
            needless += recorded_url.crawlspace.take(recorded_url, replies)
        if needless:
            self.server.send(needless)


class Storer(_Step):
    """Adds the records that have been written, and ends their claims."""

    def __init__(self, options, settings):
        super().__init__(options, settings)
        #: The commands for the batch. They are repeated unchanged, so that they count once.
        self._commands = None

    def _get_process_put(self):
        if self._commands is None:
            self.batch += self._arrived(wait=not self.batch)
            if not self.batch:
                raise queue.Empty
            self._commands = self._settlements()
        try:
            self._settle()
        except Unreachable as error:
            if not self.stop.is_set():
                # The records are in files, so they must be added to the index. The queue before this step fills up meanwhile.
                LOG.error("%s: records of %s captures wait to be added", error, len(self.batch))
                self.stop.wait(PAUSE)
                return
            LOG.critical("%s: records of %s captures are missing from the index", error, len(self.batch))
        except Exception:
            LOG.critical("records of %s captures are missing from the index", len(self.batch), exc_info=True)
        self._commands = None
        done, self.batch = self.batch, []
        for recorded_url in done:
            self._pass_on(recorded_url)

    def _settlements(self):
        commands, revisits = [], {}
        for recorded_url in self.batch:
            capture = getattr(recorded_url, "crawlspace", None)
            if capture:
                commands += capture.settlement(recorded_url, revisits)
        for prefix, records in revisits.items():
            number = self.server.next_number()
            seq = (self.server.writer, number)
            commands.append(dedupe.revisit(prefix, self.settings.crawl, records, seq=seq))
        return commands

    def _settle(self):
        if not self._commands:
            return
        for command, reply in zip(self._commands, self.server.send(self._commands)):
            if isinstance(reply, crawlspace.Error) and command.words[0] != "DEDUPE.UNCLAIM":
                LOG.error("%s: %s", command.words[0], reply)


class _Capture:
    """The look-ups and claims for the payload of a capture, in each of its buckets."""

    def __init__(self, recorded_url, settings):
        meta = recorded_url.warcprox_meta or {}
        buckets = meta.get("dedup-buckets") or {UNSPECIFIED: "rw"}
        self.settings = settings
        self.digest = warcprox.digest_str(recorded_url.payload_digest, False)
        #: Prefixes to write to, and prefixes that are only looked up, in the same order in all processes.
        self.writable = sorted({settings.prefix_of(name) for name, mode in buckets.items() if mode != "ro"})
        self.readable = sorted({settings.prefix_of(name) for name in buckets} - set(self.writable))
        #: Tokens of the claims, by prefix.
        self.tokens = {}
        self.original = None
        #: True while another capture of the payload is being stored.
        self.is_pending = False

    def questions(self, waits):
        """Returns the commands that look the payload up. With ``waits``, the server waits for a pending record."""
        crawl = self.settings.crawl
        asked = [dedupe.lookup(prefix, [self.digest], crawl=crawl) for prefix in self.readable]
        px, block = int(self.settings.claim * 1000), WAIT_MS if waits and len(self.writable) == 1 else None
        return asked + [dedupe.claim(prefix, crawl, self.digest, px, block=block) for prefix in self.writable]

    def take(self, recorded_url, replies):
        """Reads the replies to these commands. Returns commands that release unneeded claims."""
        originals = []
        for prefix in self.readable:
            reply = next(replies)
            if isinstance(reply, crawlspace.Error):
                LOG.error("DEDUPE.LOOKUP: %s", reply)
            elif reply[0] is not None:
                originals.append(Original(prefix, reply[0]))
        for prefix in self.writable:
            reply = next(replies)
            if isinstance(reply, crawlspace.Error):
                LOG.error("DEDUPE.CLAIM: %s", reply)
            elif reply.original:
                originals.append(Original(prefix, reply.original))
            elif reply.token:
                self.tokens[prefix] = reply.token
            else:
                self.is_pending = True
        self.original = next((one for one in originals if one.date), None)
        if self.original:
            self.is_pending = False
            recorded_url.dedup_info = {"url": self.original.url, "date": self.original.date}
        elif not self.is_pending:
            return []
        needless = self._unclaims()
        self.tokens = {}
        return needless

    def _unclaims(self):
        return [dedupe.unclaim(prefix, self.digest, token) for prefix, token in self.tokens.items()]

    def settlement(self, recorded_url, revisits):
        """Returns commands that report the written record. Adds a revisit to the list of its prefix in ``revisits``."""
        written = recorded_url.warc_records
        if written and written[0].type == b"response":
            date = digits(recorded_url.timestamp)
            records = [dedupe.Response(self.digest, date, recorded_url.url, written[0].length)]
            # The payload is new, so its record counts once without a number.
            return [
                dedupe.add(prefix, self.settings.crawl, records, token=token, seq=False)
                for prefix, token in self.tokens.items()
            ]
        if written and written[0].type == b"revisit" and self.original and self.original.prefix in self.writable:
            revisit = dedupe.Revisit(self.digest, written[0].length, self.original.record)
            revisits.setdefault(self.original.prefix, []).append(revisit)
        return self._unclaims()
