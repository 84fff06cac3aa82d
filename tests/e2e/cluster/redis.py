"""The directory: a real Redis, or a Redis Cluster, on ports of its own."""

import subprocess

from .case import Failure, until
from .programs import Process, free_port

BUS = 10000  # a Redis Cluster's nodes talk on the port so far above
NODE_TIMEOUT_MS = 1500  # after which a replica takes the place of a master


class Redis:
    """One server, which forgets all when it ends."""

    def __init__(self, t, name="redis", *options, address="127.0.0.1", host=None, reach=0):
        self.t, self.name, self.options = t, name, options
        self.address, self.host = address, host
        self.port = free_port(reach=reach)
        self.directory = t.path(name)
        self.log = self.directory / "log"
        t.logs.append((name, self.log))
        self.process = None
        self.start()

    def start(self):
        self.process = Process(
            self.t, self.name,
            ["redis-server", "--port", str(self.port), "--bind", self.address, "--protected-mode", "no",
             "--loglevel", "warning", "--save", "", "--appendonly", "no", "--dir", str(self.directory),
             *self.options], host=self.host, log=self.log)
        until(lambda: self.ask("PING", must=False) == "PONG", f"{self.name} answers")

    def ask(self, *words, must=True):
        """What `redis-cli` prints for a command."""
        enter = self.host.enter() if self.host else []
        done = subprocess.run([*enter, "redis-cli", "-h", self.address, "-p", str(self.port), *map(str, words)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=30)
        text = done.stdout.strip()
        if must and (done.returncode or text.startswith(("ERR", "(error)"))):
            raise Failure(f"{self.name}: {' '.join(map(str, words))}: {text}")
        return text

    def kill(self):
        self.process.kill()

    @property
    def url(self):
        return f"redis://{self.address}:{self.port}"


class RedisCluster:
    """Three masters, which share the keys, and as many replicas for each as asked for."""

    def __init__(self, t, replicas=0):
        self.t = t
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
                   "--cluster-config-file", "nodes.conf", "--repl-diskless-sync-delay", "0")
        self.servers = [Redis(t, f"redis-{i}", *options, reach=BUS) for i in range(3 * (1 + replicas))]
        addresses = [f"{server.address}:{server.port}" for server in self.servers]
        done = subprocess.run(["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", str(replicas),
                               "--cluster-yes"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=60)
        if done.returncode:
            raise Failure(f"redis-cli --cluster create: {done.stdout}")
        for server in self.servers:
            until(lambda: self.is_well(server), f"{server.name} knows all of the cluster")
        until(lambda: self.replicas_ready() == len(self.servers) - 3, "the replicas have caught up")

    @staticmethod
    def is_well(server):
        return "cluster_state:ok" in server.ask("CLUSTER", "INFO", must=False)

    def roles(self, role):
        return [s for s in self.servers if s.process.lives() and s.ask("ROLE").split()[0] == role]

    def replicas_ready(self):
        return sum("connected" in s.ask("ROLE").split() for s in self.roles("slave"))

    def master(self):
        """One that has a part of the keys."""
        return self.roles("master")[0]

    def ask_all(self, *words):
        for server in self.roles("master"):
            server.ask(*words)

    @property
    def url(self):
        return "redis://" + ",".join(f"{s.address}:{s.port}" for s in self.servers)
