#!/usr/bin/python3
"""Who does not belong to the cluster gets nothing, is told of once in the log, and harms nobody:
strangers without the key, peers of another cluster, frames that are cut, huge or noise. And a
reader whose lease has run out gets an error, never bytes (field case K2-01).
"""

import functools
import os
import random
import struct
import subprocess

from cluster import Client, Cluster, Network, Node, Redis, cenote, check, expect, main, put, role, until
from cluster.node import expect_error
from cluster.stranger import (DATA, NUMBERS, VERSION, Plain, Tls, answer, beat, error_of, frame, greeting, hello,
                              message, welcome)

MIB = 1 << 20


def address(node):
    host, _, port = node.endpoint().rpartition(":")
    return host.strip("[]"), int(port)


def still_serves(cluster, number=[0]):
    """Over the network, and with a new connection each."""
    number[0] += 1
    stores = cluster.connect()
    for name, store in zip("abc", stores):
        key = f"{name}/{number[0]}"
        put(store, key, 1, 200_000, softpin=True)
        for other in stores:
            check(other.get(key), key, 1, 200_000)
        expect(stores[0].remove(key), "it was there")
    cluster.settle()


def refusals(node):
    """Lines that say that a connection was refused."""
    return node.events("peer_refused") + [line for line in node.events("cluster") if "connection from" in line]


def certificate(t, name, authority=None):
    """(certificate, key) made by openssl; its own authority, or signed by one."""
    cert, key = t.directory / f"{name}.pem", t.directory / f"{name}-key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "2",
            "-subj", f"/CN={name}", "-out", cert, "-keyout", key]
    if authority:
        argv += ["-CA", authority[0], "-CAkey", authority[1], "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return cert, key


def noise(seed, size):
    return random.Random(seed).randbytes(size)


# ---- without the key ---------------------------------------------------------


def each_is_refused(cluster, strangers):
    """Each connects to the first node, twice, says something, and hears nothing of use; the log of
    the node has one line for each, who comes from an address of his own."""
    node = cluster[0]
    for number, (name, connect, said) in enumerate(strangers):
        source = f"127.0.1.{number + 1}"
        for _ in range(2):
            with connect(source=source) as stranger:
                stranger.send(said)
                heard = stranger.hear_end()
            expect(struct.pack("<HH", NUMBERS["PEER_WELCOME"], 0) not in heard, f"{name} was let in")
        until(lambda: any(f"{source}:" in line for line in refusals(node)),
              lambda: f"the log says that {name} was refused: {node.text()[-500:]}")
        lines = [line for line in refusals(node) if f"{source}:" in line]
        expect(len(lines) == 1, f"{name}: {lines}")
    still_serves(cluster)


def strangers_without_the_key_are_refused(t):
    cluster = Cluster(t, 2)
    host, port = address(cluster[0])
    key = cluster.key.read_bytes()
    cert, cert_key = certificate(t, "stranger")
    right = greeting() + frame(0, hello())
    plain = functools.partial(Plain, host, port)
    tls = functools.partial(Tls, t, host, port)
    each_is_refused(cluster, [
        ("one who speaks HTTP", plain, b"GET / HTTP/1.0\r\n\r\n"),
        ("one who speaks in the clear", plain, right),
        ("noise", plain, noise(1, 100_000)),
        ("one of another version", plain, greeting(version=2) + frame(0, hello())),
        ("one with another key", functools.partial(tls, key=os.urandom(32)), right),
        ("one with a key that differs in its last byte",
         functools.partial(tls, key=key[:-1] + bytes([key[-1] ^ 1])), right),
        ("one without a key", functools.partial(tls, "-tls1_3"), right),
        ("one with a certificate of its own",
         functools.partial(tls, "-tls1_3", "-cert", str(cert), "-key", str(cert_key)), right),
        ("one with TLS 1.2", functools.partial(tls, "-tls1_2"), right),
    ])
    # Who says nothing is not waited for, and has not to be.
    silent = [Plain(host, port) for _ in range(50)]
    still_serves(cluster)
    for one in silent:
        one.hear_end()
    still_serves(cluster)


def without_a_ticket_there_are_no_bytes(t):
    """Data goes in the clear to who has a ticket, and to nobody else."""
    cluster = Cluster(t, 2)
    host, port = address(cluster[0])
    put(cluster[0].connect(), "k", 1, MIB, softpin=True)
    for ticket in (bytes(16), noise(5, 16), b"\0" * 12 + b"\1\0\0\0"):
        with Plain(host, port) as stranger:
            stranger.send(greeting(DATA))
            expect(welcome(stranger), "it was not greeted")
            stranger.send(ticket + bytes(8))
            magic, status, *_ = struct.unpack("<4sIQQ", stranger.read(24))
            expect((magic, status) == (b"head", 1), f"a ticket of {ticket.hex()} was answered {magic} {status}")
            stranger.shut()
            rest = stranger.hear_end()
            expect(not rest, f"{len(rest)} bytes came")
    still_serves(cluster)


def strangers_without_a_certificate_are_refused(t):
    authority, other = certificate(t, "authority"), certificate(t, "other")
    cluster = Cluster(t, 0)
    for name in "ab":
        cert, key = certificate(t, name, authority)
        node = Node(t, name, "--directory", cluster.directory.url, "--peer-listen", "127.0.0.1:0", "--peer-tls", "all",
                    "--peer-cert", str(cert), "--peer-cert-key", str(key), "--peer-ca", str(authority[0]))
        cluster.nodes.append(node.start())
    cluster.settle()
    still_serves(cluster)
    host, port = address(cluster[0])
    own, forged = certificate(t, "own"), certificate(t, "forged", other)
    tls, right = functools.partial(Tls, t, host, port), greeting() + frame(0, hello())
    each_is_refused(cluster, [
        ("one without a certificate", functools.partial(tls, "-tls1_3"), right),
        ("one with a key", functools.partial(tls, key=cluster.key.read_bytes()), right),
        ("one with a certificate of its own",
         functools.partial(tls, "-tls1_3", "-cert", str(own[0]), "-key", str(own[1])), right),
        ("one with a certificate of another authority",
         functools.partial(tls, "-tls1_3", "-cert", str(forged[0]), "-key", str(forged[1])), right)])


# ---- with the key ------------------------------------------------------------


def a_peer_of_another_cluster_is_refused(t):
    cluster = Cluster(t, 2)
    a = cluster[0]
    host, port = address(a)
    key = cluster.key.read_bytes()
    for name, said, code, words in (("of another cluster", hello(cluster="other"), -601, ("other", "cenote")),
                                    ("of another version", hello(version=VERSION + 1), -300, (str(VERSION + 1),)),
                                    ("with no id", hello(node=0), -601, ())):
        before = len(refusals(a))
        with Tls(t, host, port, key=key) as peer:
            peer.send(greeting() + frame(7, said))
            expect(welcome(peer), f"a peer {name} was not greeted")
            channel, number, body = answer(peer)
            expect((channel, number) == (7, NUMBERS["ERROR"]), f"a peer {name} was answered {number} on {channel}")
            got, text = error_of(body)
            expect(got == code and all(word in text for word in words), f"a peer {name} was told {got}: {text}")
            expect(peer.hear_end() == b"", "more came")
        expect(len(refusals(a)) == before + 1, f"a peer {name}: {refusals(a)[before:]}")
    still_serves(cluster)


def another_cluster_on_the_same_directory_is_another(t):
    redis = Redis(t)
    cluster = Cluster(t, 2, directory=redis)
    other = Cluster(t, 2, "--cluster", "other", directory=redis, names="xy")
    first, second = cluster.connect(), other.connect()
    put(first[0], "k", 1, 100_000, softpin=True)
    expect_error(lambda: second[0].get("k"), cenote.NotFound)
    put(second[0], "k", 2, 50_000, softpin=True)
    check(first[1].get("k"), "k", 1, 100_000)
    check(second[1].get("k"), "k", 2, 50_000)
    expect(second[1].remove("k"), "removed there")
    check(first[1].get("k"), "k", 1, 100_000)


def welcomed(t, node, key):
    """A peer by hand, which has been let in."""
    host, port = address(node)
    peer = Tls(t, host, port, key=key)
    peer.send(greeting() + frame(0, hello(node=random.getrandbits(63) | 1)))
    expect(welcome(peer), "it was not greeted")
    channel, number, _ = answer(peer)
    expect((channel, number) == (0, NUMBERS["PEER_WELCOME"]), f"answered {number} on {channel}")
    return peer


def broken_frames_end_their_connection_alone(t):
    cluster = Cluster(t, 2)
    a = cluster[0]
    key = cluster.key.read_bytes()
    host, port = address(a)
    ends = [
        ("truncated", frame(3, beat())[:-5]),
        ("huge", struct.pack("<II", 0xfffffff0, 3) + bytes(100_000)),
        ("empty", struct.pack("<II", 0, 3) * 10),
        ("noise", noise(2, 300_000)),
        ("a message with another length than its frame", frame(3, struct.pack("<HHI", NUMBERS["BEAT"], 0, 1 << 30))),
        ("no message", frame(3, noise(3, 5000))),
    ]
    for greets in (True, False):
        for name, said in ends:
            peer = welcomed(t, a, key) if greets else Tls(t, host, port, key=key)
            with peer:
                peer.send(said if greets else greeting() + said)
                peer.shut()
                peer.hear_end()
            expect(a.lives(), f"a frame that is {name} has ended the daemon")
            a.check()
    still_serves(cluster)
    # Each kind of request with noise in it, and cut at every place.
    dice = random.Random(4)
    for kind in ("REPLICA_ASK", "UNLEASE", "HAVE", "DROP", "DROP_PREFIX", "READ_AT", "KEEP", "PUBLISHED", "REPLACED",
                 "LEAVING", "BEAT", "PEER_HELLO"):
        with welcomed(t, a, key) as peer:
            for _ in range(20):
                peer.send(frame(dice.randrange(100), message(kind, dice.randbytes(dice.randrange(60)))))
            peer.send(frame(100, beat()))
            peer.shut()
            peer.hear_end()
    still_serves(cluster)
    expect(len(refusals(a)) <= 2 * len(ends) + 20, f"{len(refusals(a))} lines in the log")


def an_unknown_message_leaves_the_connection_usable(t):
    """K4-05: it is answered by an error, and the next one as if it had not been."""
    cluster = Cluster(t, 2)
    with welcomed(t, cluster[0], cluster.key.read_bytes()) as peer:
        for kind in (9999, "PUT_START", "HELLO", "INFO"):
            peer.send(frame(5, message(kind, bytes(8))))
            channel, number, body = answer(peer)
            expect((channel, number) == (5, NUMBERS["ERROR"]), f"{kind} was answered {number} on {channel}")
            expect(error_of(body)[0] == -1013, f"{kind}: {error_of(body)}")
            peer.send(frame(6, beat()))
            channel, number, _ = answer(peer)
            expect((channel, number) == (6, NUMBERS["BEATEN"]), f"then a beat was answered {number} on {channel}")
    still_serves(cluster)


# ---- how it starts -----------------------------------------------------------


def without_a_key_it_does_not_start(t):
    redis = Redis(t)
    node = Node(t, "bare", "--directory", redis.url, "--peer-listen", "127.0.0.1:0")
    expect(not node.up(), "it started")
    expect(node.process.wait() != 0, "it claims to have ended well")
    for way in ("--peer-key", "--peer-cert", "--insecure"):
        expect(way in node.text(), f"it does not name {way}: {node.text()}")
    short = t.directory / "short"
    short.write_bytes(bytes(31))
    for number, path in enumerate((short, t.directory / "nowhere", t.directory)):
        other = Node(t, f"key-{number}", "--directory", redis.url, "--peer-listen", "127.0.0.1:0", "--peer-key",
                     str(path))
        expect(not other.up(), f"it started with {path}")
        expect(other.process.wait() != 0, "it claims to have ended well")
        expect(str(path) in other.text(), f"it does not name {path}: {other.text()}")


def insecure_starts_and_warns(t):
    cluster = Cluster(t, 0)
    for name in "ab":
        node = Node(t, name, "--directory", cluster.directory.url, "--peer-listen", "127.0.0.1:0", "--insecure")
        cluster.nodes.append(node.start())
        warnings = [line for line in node.text().splitlines() if line.startswith("<4>") and "insecure" in line]
        expect(len(warnings) == 1, f"{len(warnings)} warnings: {node.text()}")
    cluster.settle()
    still_serves(cluster)


def bytes_may_go_under_tls_too(t):
    cluster = Cluster(t, 3, "--peer-tls", "all")
    still_serves(cluster)
    stores = cluster.connect()
    put(stores[0], "large", 1, 20 * MIB, softpin=True)
    for store in stores[1:]:
        check(store.get("large"), "large", 1, 20 * MIB)


# ---- leases ------------------------------------------------------------------


@role
def late_reader(me, key, size):
    """Gets the object whenever it is there, and says how each get ended, until told to stop."""
    while not me.was_told():
        try:
            check(me.store.get(key, wait=True, timeout=5), key, 1, size)
            me.say("ok")
        except cenote.CenoteError as error:
            me.say(type(error).__name__)


def a_reader_that_is_too_slow_gets_an_error(t):
    """K2-01: the link takes 1 s for the object, its lease 200 ms; in every second round it is removed
    meanwhile, and others take its place. There is no other copy."""
    network = Network(t)
    redis = Redis(t, address=network.hub.address, host=network.hub)
    cluster = Cluster(t, 2, "--pool", "32M", "--lease-min", "200ms", "--lease-max", "200ms", directory=redis,
                      hosts=[network.host(name) for name in "ab"])
    a, b = cluster
    at_a, at_b = cluster.connect()
    size = 8 * MIB
    a.host.slow(8 * MIB)
    reader = Client(t, b, "late_reader", "slow", size)
    for number in range(8):
        put(at_a, "slow", 1, size, softpin=True)
        until(lambda: b.cluster("fetches_under_way") > 0, "the reader fetches it")
        if number % 2:
            reader.heard("LeaseExpired")
        expect(at_a.remove("slow"), "removed")
        for other in range(3):
            put(at_a, f"other/{number}/{other}", number, size)
        while reader.has_said():
            said = reader.hear()
            expect(said in ("LeaseExpired", "NotFound", "Unavailable"), f"a get ended with {said}")
    a.host.slow(0)
    put(at_a, "slow", 1, size, softpin=True)
    until(lambda: reader.hear() == "ok", "it gets the bytes at last")
    reader.say("stop")
    check(at_b.get("slow"), "slow", 1, size)


main(strangers_without_the_key_are_refused, without_a_ticket_there_are_no_bytes,
     strangers_without_a_certificate_are_refused,
     a_peer_of_another_cluster_is_refused, another_cluster_on_the_same_directory_is_another,
     broken_frames_end_their_connection_alone, an_unknown_message_leaves_the_connection_usable,
     without_a_key_it_does_not_start, insecure_starts_and_warns, bytes_may_go_under_tls_too,
     a_reader_that_is_too_slow_gets_an_error)
