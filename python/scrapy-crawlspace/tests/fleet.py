"""Servers and crawler processes of the tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import crawlspace
import redis

SPIDERS = str(Path(__file__).with_name("spiders.py"))


class Server:
    """A Redis server with the module."""

    def __init__(self, *, aof: bool = True) -> None:
        self._aof = aof
        self._folder = tempfile.TemporaryDirectory()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.client = redis.Redis(port=self.port)
        self.start()

    def start(self) -> None:
        words = [os.environ.get("REDIS_SERVER", "redis-server"), "--port", str(self.port), "--save", ""]
        words += ["--dir", self._folder.name, "--loglevel", "warning"]
        if self._aof:
            words += ["--appendonly", "yes", "--appendfsync", "always"]
        words += ["--loadmodule", os.environ["CRAWLSPACE_MODULE"]]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        until("the server replies", self._replies)

    def _replies(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def kill9(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.client.close()
        self.kill9()
        self._folder.cleanup()

    def frontier(self, prefix: str) -> crawlspace.Frontier:
        return crawlspace.Frontier(self.client, prefix)


def until(what: str, holds: Callable[[], Any], seconds: float = 60) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} seconds")
        time.sleep(0.01)


class Crawler:
    """A process that runs a spider."""

    def __init__(
        self, port: int, spider: str, settings: Dict[str, Any], arguments: Optional[Dict[str, Any]] = None, **more: Any
    ) -> None:
        options = {"settings": settings, "arguments": arguments or {}, **more}
        self._errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, SPIDERS, spider, json.dumps(options)],
            env={**os.environ, "PORT": str(port)},
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def kill9(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._errors.close()

    def fail(self) -> str:
        """Waits until the process has failed, and returns its messages."""
        self.process.communicate(timeout=120)
        errors = self.errors()
        self._errors.close()
        return errors

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds: float = 240) -> Dict[str, Any]:
        """Waits for the end, and returns the statistics of Scrapy."""
        try:
            out, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError(self.errors()[-4000:])
        errors = self.errors()
        self._errors.close()
        lines: List[str] = out.splitlines()
        assert self.process.returncode == 0 and lines, errors[-4000:]
        stats: Dict[str, Any] = json.loads(lines[-1])
        stats["errors"] = errors
        return stats
