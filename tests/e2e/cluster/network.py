"""Hosts of one network: network namespaces on a bridge, whose links nftables cuts.

    network = Network(t)
    a, b = network.host("a"), network.host("b")
    network.cut(a, b)                 # both ways; cut_one_way: what the first sends is dropped
    network.heal()

What is dropped leaves no trace: the other end hears nothing, as when a cable is pulled. The
namespaces have no names and are gone with the process that keeps each, which is gone with the
test.
"""

import os
import pathlib
import subprocess

from .case import Failure, Skip, until
from .programs import Process

OWN = pathlib.Path("/proc/self/ns/net")


def run(*argv, text=None):
    done = subprocess.run([str(a) for a in argv], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, argv))}: {done.stdout.strip()}")
    return done.stdout


class Host:
    """One namespace; a daemon or a Redis that is started with it as its `host` is in it."""

    def __init__(self, t, name, address=None):
        self.name, self.address = name, address
        # It waits for the end of its input, which is the test's.
        self.keeper = Process(t, f"network of {name}", ["unshare", "--net", "cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL)
        until(self.is_made, f"a network namespace for {name}")
        self.run("ip", "link", "set", "lo", "up")

    def is_made(self):
        try:
            return os.readlink(f"/proc/{self.keeper.pid}/ns/net") != os.readlink(OWN)
        except OSError as error:
            raise Failure(f"no network namespace: {error}") from error

    def enter(self):
        """The words before those of a command that is to run in it."""
        return ["nsenter", f"--net=/proc/{self.keeper.pid}/ns/net"]

    def run(self, *argv, text=None):
        return run(*self.enter(), *argv, text=text)

    def slow(self, bytes_a_second):
        """What it sends to others takes its time; 0: no more."""
        if bytes_a_second:
            self.run("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{bytes_a_second * 8}bit",
                     "burst", "64kb", "limit", "1mb")
        else:
            self.run("tc", "qdisc", "del", "dev", "eth0", "root")


class Network:
    NET = "10.77.0"

    def __init__(self, t):
        if os.geteuid() != 0:
            raise Skip("network namespaces take root")
        self.t = t
        self.hosts = []
        try:
            self.hub = Host(t, "hub", f"{self.NET}.1")
            # Else its address changes with the links it gets, and hosts that know the old one hear nothing for 30 s.
            self.hub.run("ip", "link", "add", "br0", "address", "02:00:00:00:00:01", "type", "bridge")
            self.hub.run("ip", "addr", "add", f"{self.NET}.1/24", "dev", "br0")
            self.hub.run("ip", "link", "set", "br0", "up")
            self.hub.run("nft", "-f", "-", text="add table inet cut\ndelete table inet cut\n")
        except (Failure, OSError) as why:
            raise Skip(f"no network namespaces with veth and nftables here: {why}") from why

    def host(self, name):
        number = 2 + len(self.hosts)
        host = Host(self.t, name, f"{self.NET}.{number}")
        self.hosts.append(host)
        link = f"v{number}"
        self.hub.run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", host.keeper.pid)
        self.hub.run("ip", "link", "set", link, "master", "br0", "up")
        host.run("ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        host.run("nft", "-f", "-", text="table inet cut {\n chain in { type filter hook input priority 0; }\n}\n")
        return host

    @staticmethod
    def cut_one_way(sender, receiver):
        receiver.run("nft", "add", "rule", "inet", "cut", "in", "ip", "saddr", sender.address, "drop")

    def cut(self, one, other):
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def heal(self):
        for host in self.hosts:
            host.run("nft", "flush", "chain", "inet", "cut", "in")
