"""A cluster of three masters with a replica each, on free loopback ports.

The environment names the module (CRAWLSPACE_MODULE), and may name the server (REDIS_SERVER).
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from typing import Any, Callable, Dict, List

import redis

#: Milliseconds after which the other masters consider a node dead.
NODE_TIMEOUT = 2_000


def until(what: str, holds: Callable[[], Any], seconds: float = 120) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} seconds")
        time.sleep(0.01)


def free_port() -> int:
    """Returns a free port, whose port of the cluster bus, 10 000 higher, exists."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        if port < 55_000:
            return port


class Node:
    """A server of the cluster."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.port = free_port()
        self.client = redis.Redis(port=self.port)
        words = [os.environ.get("REDIS_SERVER", "redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        words += ["--dir", self._folder.name, "--save", "", "--repl-diskless-sync-delay", "0"]
        words += ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT)]
        # A busy machine must not look like a dead master: `kill_master` allows its replica the failover.
        words += ["--cluster-replica-no-failover", "yes", "--loadmodule", os.environ["CRAWLSPACE_MODULE"]]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        until("the server replies", self._replies)

    def _replies(self) -> bool:
        assert self._process.poll() is None, f"the server has ended with status {self._process.returncode}"
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def cluster(self, *words: Any) -> Any:
        # Two words keep redis-py from parsing the reply.
        return self.client.execute_command("CLUSTER", *words)

    @property
    def id(self) -> str:
        return self.cluster("MYID").decode()

    def masters(self) -> Dict[str, str]:
        """Returns the ids of all nodes that this node knows, each with that of its master."""
        rows = [row.split() for row in self.cluster("NODES").decode().splitlines()]
        return {row[0]: row[3] for row in rows}

    def replication(self) -> Dict[str, Any]:
        found: Dict[str, Any] = self.client.info("replication")
        return found

    def is_master(self) -> bool:
        return self.replication()["role"] == "master"

    def kill9(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.client.close()
        self.kill9()
        self._folder.cleanup()


class Cluster:
    """Three masters, and a replica of each. The masters share the slots evenly."""

    def __init__(self) -> None:
        self.nodes: List[Node] = []
        try:
            for _ in range(6):
                self.nodes.append(Node())
            self._join()
        except BaseException:
            self.close()
            raise

    def _join(self) -> None:
        first = self.nodes[0]
        for number, master in enumerate(self.nodes[:3]):
            master.cluster("ADDSLOTSRANGE", *((0, 5460), (5461, 10922), (10923, 16383))[number])
            # Nodes with equal epochs would have to resolve the conflict first.
            master.cluster("SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            first.cluster("MEET", "127.0.0.1", node.port)
        for node in self.nodes:
            until("all nodes know each other", lambda: len(node.masters()) == 6 and b"handshake" not in node.cluster("NODES"))
        for master, replica in zip(self.nodes[:3], self.nodes[3:]):
            replica.cluster("REPLICATE", master.id)
        for replica in self.nodes[3:]:
            until("the replica is in sync", lambda: replica.replication().get("master_link_status") == "up")
        for node in self.nodes:
            until("all nodes know the replicas", lambda: list(node.masters().values()).count("-") == 3)
            until("the cluster is whole", lambda: b"cluster_state:ok" in node.cluster("INFO"))

    @property
    def port(self) -> int:
        """Port of a node that has none of the slots of the tests, so that it is never killed."""
        return self.nodes[1].port

    def _pair(self, prefix: str) -> "tuple[Node, Node]":
        """Returns the master of a prefix, and its replica."""
        slot = int(self.nodes[1].cluster("KEYSLOT", prefix))
        number = min(slot // 5461, 2)
        one, other = self.nodes[number], self.nodes[number + 3]
        return (one, other) if one.is_master() else (other, one)

    def fail_over(self, prefix: str) -> None:
        """Exchanges the roles of the master of a prefix and its replica, while both are alive."""
        master, replica = self._pair(prefix)
        replica.cluster("FAILOVER")
        until("the replica is a master", replica.is_master)
        until("the old master is in sync", lambda: master.replication().get("master_link_status") == "up")
        # Otherwise, the next failover of these two nodes may fail.
        for node in self.nodes:
            until("all nodes know the new master", lambda: node.masters().get(master.id) == replica.id)

    def kill_master(self, prefix: str) -> None:
        """Kills the master of a prefix, and waits until the cluster has made its replica a master.

        Replication is asynchronous. Therefore this pauses writes, and kills the master once the
        replica has all earlier writes, so that no confirmed write is lost.
        """
        master, replica = self._pair(prefix)
        master.client.execute_command("CLIENT PAUSE", 60_000, "WRITE")
        until(
            "the replica has all writes",
            lambda: master.replication()["master_repl_offset"] == replica.replication()["slave_repl_offset"],
        )
        replica.client.config_set("cluster-replica-no-failover", "no")
        master.kill9()
        until("the replica is a master", replica.is_master)
        replica.client.config_set("cluster-replica-no-failover", "yes")

    def close(self) -> None:
        for node in self.nodes:
            node.close()
