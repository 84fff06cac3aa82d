#!/usr/bin/python3
"""The harness of the cluster's tests: what they rest on holds, and what must fail does fail."""

import socket

from cluster import Client, Failure, Network, Process, Redis, RedisCluster, check, expect, main, pattern, role, until
from cluster.programs import PYTHON, free_port

PROBE = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[3])) as s:
        s.settimeout(float(sys.argv[3])); s.sendall(b"x"); print("there" if s.recv(1) == b"x" else "closed")
except OSError:
    print("silent")
"""
ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    while True:
        connection, _ = server.accept()
        with connection: connection.sendall(connection.recv(1))
"""


def must_fail(call, words):
    try:
        call()
    except Failure as why:
        expect(words in str(why), f"it failed with: {why}")
        return
    raise Failure(f"it had to fail: {words}")


def bytes_tell_whose_they_are(_t):
    right = pattern("k", 1, 3 << 20)
    check(right, "k", 1, 3 << 20)
    for at in (0, 4096, (3 << 20) - 1):
        wrong = bytearray(right)
        wrong[at] ^= 1
        must_fail(lambda: check(wrong, "k", 1, 3 << 20), f"wrong byte at {at} ")
    must_fail(lambda: check(right[:-1], "k", 1, 3 << 20), "bytes, not")
    for other in (pattern("k", 2, 3 << 20), pattern("j", 1, 3 << 20)):
        must_fail(lambda: check(other, "k", 1, 3 << 20), "wrong byte")
    # Nor do the pieces of one object stand for each other.
    expect(right[:1 << 20] != right[1 << 20:2 << 20], "two places have the same bytes")


@role
def parrot(self):
    while True:
        word = self.hear()
        if word == "die":
            raise SystemExit(3)
        self.say(word)


def a_client_that_dies_is_noticed(t):
    client = Client(t, None, "parrot")
    client.say({"a": [1, "ü"]})
    client.heard({"a": [1, "ü"]})
    client.say("one")
    must_fail(lambda: client.heard("other"), "not 'other'")
    client.say("die")
    must_fail(client.hear, "status 3")
    other = Client(t, None, "parrot")
    other.kill()
    must_fail(other.end, "SIGKILL")


def a_redis_forgets_when_it_dies(t):
    redis = Redis(t)
    redis.ask("SET", "k", "1")
    expect(redis.ask("GET", "k") == "1", "it does not store")
    redis.kill()
    redis.start()
    expect(redis.ask("GET", "k") == "", "it has kept it")


def a_replica_takes_the_place_of_a_master(t):
    redis = RedisCluster(t, replicas=1)
    expect(len(redis.roles("master")) == 3, "three masters")
    dead = redis.master()
    dead.kill()
    until(lambda: len(redis.roles("master")) == 3, "a replica is master")
    for server in redis.servers:
        if server is not dead:
            until(lambda: redis.is_well(server), f"{server.name} finds the cluster well")


def a_link_can_be_cut(t):
    network = Network(t)
    hosts = [network.host(name) for name in "abc"]
    ports = [free_port() for _ in hosts]
    for host, port in zip(hosts, ports):
        Process(t, f"echo on {host.name}", [PYTHON, "-c", ECHO, host.address, str(port)], host=host)

    def hears(host, other, seconds=30):
        to = hosts.index(other)
        return host.run(PYTHON, "-c", PROBE, other.address, ports[to], seconds).strip()

    a, b, c = hosts
    for host in hosts:
        for other in hosts:
            until(lambda: hears(host, other) == "there", f"{host.name} hears {other.name}")
    network.cut(a, b)
    expect(hears(a, b, 0.5) == hears(b, a, 0.5) == "silent", "the cut link carries something")
    expect(hears(a, c) == hears(c, b) == "there", "another link was cut")
    network.heal()
    expect(hears(a, b) == hears(b, a) == "there", "the link is not whole again")
    # A connection takes both ways; a datagram takes one.
    network.cut_one_way(a, b)
    expect(hears(a, b, 0.5) == "silent", "the cut link carries something")
    got = datagram(t, a, b), datagram(t, b, a)
    expect(got == ("silent", "there"), f"from the one to the other, and back: {got}")


SEND = ("import socket, sys\ns = socket.socket(type=socket.SOCK_DGRAM)\n"
        "s.sendto(sys.argv[3].encode(), (sys.argv[1], int(sys.argv[2])))")
RECEIVE = ("import socket, sys\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.bind((sys.argv[1], int(sys.argv[2])))\n"
           "print('bound', flush=True)\nprint(s.recv(9).decode(), flush=True)")


def datagram(t, sender, receiver):
    """What came first at the receiver: what the other has sent, or what it sent itself after that."""
    port = str(free_port())
    log = t.directory / f"datagram-{sender.name}"
    process = Process(t, "receiver", [PYTHON, "-c", RECEIVE, receiver.address, port], host=receiver, log=log)
    until(lambda: "bound" in log.read_text(), "the receiver is bound")
    sender.run(PYTHON, "-c", SEND, receiver.address, port, "there")
    receiver.run(PYTHON, "-c", SEND, receiver.address, port, "silent")
    process.wait()
    return log.read_text().split()[-1]


def ports_are_free(_t):
    for host in ("127.0.0.1", "::1"):
        with socket.create_server((host, free_port(host)), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass


main(bytes_tell_whose_they_are, a_client_that_dies_is_noticed, a_redis_forgets_when_it_dies,
     a_replica_takes_the_place_of_a_master, a_link_can_be_cut, ports_are_free)
