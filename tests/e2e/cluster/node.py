"""Daemons: one, and the nodes of a cluster."""

import json
import os
import shutil
import signal
import subprocess

from .case import Failure, expect, until
from .pattern import put
from .programs import DAEMONS, Process, cenote
from .redis import Redis

POOL = ("--pool", "64M")
GONE_S = 3  # a node that was silent for so long is gone (node/cluster_priv.h)


class Node:
    """A daemon, with a directory of its own; options as on its command line, the last wins."""

    def __init__(self, t, name, *options, build=DAEMONS, host=None):
        self.t, self.name, self.build, self.host = t, name, build, host
        self.options = list(options)
        self.directory = t.path(name)
        self.socket = str(self.directory / "cenote.sock")
        self.log = self.directory / "log"
        self.process = None
        self.admin = None
        t.logs.append((name, self.log))
        t.checks.append(self.check)

    def up(self):
        """Start it, for the first time or again. True: it is ready. False: it has ended."""
        reader, writer = os.pipe()
        with os.fdopen(reader) as ready:
            try:
                self.process = Process(
                    self.t, self.name,
                    [self.build / "cenoted", "--run-dir", self.directory, "--ready-fd", str(writer), *POOL,
                     "--huge-pages", "never", *self.options], host=self.host, log=self.log, pass_fds=[writer])
            finally:
                os.close(writer)
            return ready.readline().startswith("ready")

    def start(self):
        expect(self.up(), f"{self.name} did not get ready: {self.text()[-2000:]}")
        return self

    def kill(self):
        """As by kill -9; its pool stays."""
        self.process.kill()

    def stop(self):
        """In order."""
        self.process.signal(signal.SIGTERM)
        status = self.process.wait()
        expect(status == 0, f"{self.name} ended with status {status}")

    def restart(self, *options):
        self.kill()
        self.options += options
        self.start()

    def suspend(self):
        self.process.signal(signal.SIGSTOP)

    def resume(self):
        self.process.signal(signal.SIGCONT)

    def wipe(self):
        """What a reboot does to a daemon that has ended: its pool is gone."""
        shm = self.directory / "shm"
        if os.path.ismount(shm):
            subprocess.run(["umount", "--lazy", shm], check=True)
        shutil.rmtree(shm, ignore_errors=True)

    def lives(self):
        return self.process is not None and self.process.lives()

    def text(self):
        """What it has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def events(self, event):
        """The lines that it has logged of one kind."""
        return [line for line in self.text().splitlines() if f"event={event} " in f"{line} "]

    # ---- as a client of it ---------------------------------------------------

    def connect(self, **options):
        store = cenote.connect(self.socket, **options)
        self.t.later(store.close)
        return store

    def ask(self, what):
        """INFO, over a connection that is kept."""
        if self.admin is None or self.admin.closed:
            self.admin = self.connect()
        return self.admin.info(what)

    def drain(self, end=False):
        self.ask("stats")
        self.admin.drain(end)

    def stats(self):
        return json.loads(self.ask("stats"))

    def counter(self, name):
        return self.stats()["counters"][name]

    def cluster(self, name):
        return self.stats()["cluster"][name]

    def endpoint(self):
        """Where others reach it: HOST:PORT."""
        return self.cluster("endpoint")

    def peers_up(self):
        """How many other nodes it can ask."""
        return sum(member["state"] == "up" for member in self.cluster("members"))

    def directory_is_complete(self):
        """All that there is was announced to every part of it."""
        parts = self.cluster("directory")
        return bool(parts) and all(part["complete"] for part in parts)

    def used(self):
        """Bytes of its pool that anything uses; what is withheld is free, and kept so."""
        pool = self.stats()["pool"]
        return pool["size"] - pool["free"] - pool["withheld"]

    def check(self):
        if self.lives():
            said = self.ask("check").strip()
            expect(said == "ok", f"{self.name}: {said}")


class Cluster:
    """Nodes with one directory and one key, each of which knows that the others are there."""

    def __init__(self, t, count=3, *options, directory=None, build=DAEMONS, hosts=None, disk=False, names="abcdefgh"):
        self.t = t
        self.directory = directory or Redis(t)
        self.key = t.directory / "key"
        self.key.write_bytes(os.urandom(32))
        self.nodes = []
        for i in range(count):
            host = hosts and hosts[i]
            # Not to others: most cases with a disk are about what lies on it.
            of_disk = ["--disk", str(t.directory / f"{names[i]}-disk"), "--swapout-first", "disk"] if disk else []
            self.nodes.append(Node(t, names[i], *self.common(host), *of_disk, *options, build=build, host=host))
        for node in self.nodes:
            node.start()
        self.settle()

    def common(self, host=None):
        """The options by which a daemon is of this cluster."""
        listen = f"{host.address}:7450" if host else "127.0.0.1:0"
        return ("--directory", self.directory.url, "--peer-listen", listen, "--peer-key", str(self.key))

    def settle(self, seconds=30):
        """Until each living node can ask every other, and the directory knows what they have."""
        living = [node for node in self.nodes if node.lives()]
        for node in living:
            until(lambda: node.peers_up() == len(living) - 1 and node.directory_is_complete(),
                  lambda: f"{node.name} can ask {node.peers_up()} others of {len(living) - 1}; the directory: "
                  f"{node.cluster('directory')}", seconds)

    def connect(self, **options):
        return [node.connect(**options) for node in self.nodes]

    def __getitem__(self, index):
        return self.nodes[index]

    def __iter__(self):
        return iter(self.nodes)

    def __len__(self):
        return len(self.nodes)

    def sum(self, name):
        """A counter of the cluster's, of all living nodes."""
        return sum(node.cluster(name) for node in self.nodes if node.lives())


def press(node, store, keys, size=4 << 20):
    """Read these objects, and put others until they lie on the node's disk alone: what was read
    leaves first."""
    number = 0
    for key in keys:
        store.get(key).release()
    while any(stat.in_pool for stat in store.stat_batch(keys)):
        expect(number < 500, f"{keys} do not leave the pool of {node.name}")
        put(store, f"press/{node.name}/{number}", 1, size, softpin=True)
        number += 1
    expect(all(stat.on_disk for stat in store.stat_batch(keys)), f"one of {keys} is nowhere")
    for other in range(number):
        store.remove(f"press/{node.name}/{other}")


def expect_error(call, *kinds):
    """The call must fail so; returns the error."""
    try:
        answer = call()
    except kinds as error:
        return error
    except cenote.CenoteError as error:
        raise Failure(f"{type(error).__name__}: {error}, not {' or '.join(k.__name__ for k in kinds)}") from error
    if hasattr(answer, "release"):
        answer.release()
    raise Failure(f"it worked, and had to fail with {' or '.join(k.__name__ for k in kinds)}")
