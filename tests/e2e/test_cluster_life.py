#!/usr/bin/python3
"""Nodes come, go, stall and move: field cases of liveness and of addresses (K4, K7-17, K16-01).

K4-05 is here as far as it is the cluster's: a daemon that comes back at another address; the
unknown message is in test_cluster_strangers.py, that of a client in test_attach.c. K4-13 is in
test_cluster_keep.py, with all that is drained.
"""

import os
import pathlib
import signal
import statistics
import subprocess
import threading
import time

from cluster import Client, Cluster, Network, Node, Redis, Skip, cenote, check, expect, main, put, role, until
from cluster.node import GONE_S, expect_error
from cluster.programs import free_port

MIB = 1 << 20
FULL = os.environ.get("CENOTE_TEST_FULL") == "1"
AT_ONCE = 20  # times what a get takes of which the directory alone is asked: a wait is a thousand times as long


def each_reads_all(cluster, keys, size):
    for store in cluster.connect():
        for key in keys:
            check(store.get(key), key, 1, size)


def a_stopped_daemon_is_not_dead(t):
    """K4-03: SIGSTOP for three times as long as makes a node gone. Nobody's clients are expired,
    no key is lost, and the one that stood still takes nobody for dead."""
    cluster = Cluster(t)
    a, b = cluster[0], cluster[1]
    at_a, at_b, at_c = stores = cluster.connect()
    keys = [f"{node.name}/{i}" for node in cluster for i in range(30)]
    for key in keys:
        put(stores["abc".index(key[0])], key, 1, 5000, softpin=True)
    attached = a.counter("attached")
    gone = [node.counter("gone") for node in cluster]
    suspects = a.cluster("suspects")
    a.suspend()
    end = time.monotonic() + 3 * GONE_S
    rounds = 0
    while time.monotonic() < end:
        key = f"meanwhile/{rounds}"
        put(at_b, key, 1, 5000, softpin=True)
        check(at_c.get(key), key, 1, 5000)
        expect(at_b.remove(key), "removed")
        expect_error(lambda: at_c.get(f"a/{rounds % 30}", timeout=2), cenote.Unavailable, cenote.Timeout, cenote.Lost)
        rounds += 1
    expect(len(b.events("peer_gone")) == 1, "it was not gone to the others")
    a.resume()
    # Its own first look at what the others have.
    check(at_a.get("b/0"), "b/0", 1, 5000)
    cluster.settle()
    for store in stores:
        for key in keys:
            check(store.get(key), key, 1, 5000)
    expect(a.counter("attached") == attached, "its client had to attach again")
    expect([node.counter("gone") for node in cluster] == gone, "a client was expired")
    expect(not a.events("peer_gone"), "it took others for dead")
    t.note(f"{rounds} rounds of the others meanwhile; suspects of the one that stood still: "
           f"{a.cluster('suspects') - suspects}")


def a_node_that_is_gone_costs_no_reader_its_time(t):
    """K4-07: the object is on B alone, and B dies. Readers on A are told at once, again and again; a
    put makes a cache object readable at once; one that is kept is not overwritten unasked."""
    cluster = Cluster(t)
    a, b, c = cluster
    at_b = b.connect()
    put(at_b, "kept", 1, MIB, softpin=True)
    put(at_b, "cache", 1, MIB)
    readers = [a.connect() for _ in range(100)]
    b.kill()

    def one(store, key, *kinds):
        began = time.monotonic()
        expect_error(lambda: store.get(key), *kinds)
        return time.monotonic() - began
    first = one(readers[0], "kept", cenote.Unavailable, cenote.Lost)
    took, beside = [], []
    for store in readers * 3:
        took.append(one(store, "kept", cenote.Unavailable, cenote.Lost))
        beside.append(one(store, "nothing", cenote.NotFound))
    median, of_nothing = statistics.median(took), statistics.median(beside)
    t.note(f"first {first * 1000:.1f} ms, then median {median * 1000:.2f}, most {max(took) * 1000:.1f} ms; of what is "
           f"nowhere {of_nothing * 1000:.2f}")
    expect(first < 2 * GONE_S, "the first reader waited")
    expect(median < AT_ONCE * of_nothing, f"the others wait for {median / of_nothing:.0f} times as long")
    together = []
    threads = [threading.Thread(target=lambda s=store: together.append(one(s, "kept", cenote.Unavailable, cenote.Lost)))
               for store in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(len(together) == 100 and max(together) < 2 * GONE_S, f"100 at once: {max(together):.2f} s at most")
    # What may be dropped counts as dropped.
    expect_error(lambda: readers[0].get("cache"), cenote.NotFound, cenote.Unavailable)
    put(readers[0], "cache", 2, MIB)
    expect_error(lambda: put(readers[0], "kept", 2, MIB), cenote.Exists)
    put(readers[0], "kept", 3, MIB, softpin=True, replace=True)
    for store in (readers[1], c.connect()):
        check(store.get("cache"), "cache", 2, MIB)
        check(store.get("kept"), "kept", 3, MIB)
    b.start()
    cluster.settle()
    # It comes with older ones under these keys, which are not found any more, here nor there.
    for node in cluster:
        store = node.connect()
        until(lambda: store.stat("kept").generation == readers[0].stat("kept").generation,
              "the newer one is everywhere")
        check(store.get("cache"), "cache", 2, MIB)
        check(store.get("kept"), "kept", 3, MIB)


@role
def endless_reader(me, size):
    """Gets what the test puts, of a node that dies, holds it, and compares again afterwards."""
    ends = {}
    number = 0
    while True:
        key = f"k/{number}"
        if me.was_told():
            me.hear()
            break
        try:
            buffer = me.store.get(key, wait=True, timeout=5)
        except (cenote.Unavailable, cenote.Timeout, cenote.TransferFailed, cenote.LeaseExpired, cenote.Lost) as error:
            ends[type(error).__name__] = ends.get(type(error).__name__, 0) + 1
            continue
        copy = bytes(buffer)
        check(copy, key, 1, size)
        expect(bytes(buffer) == copy, f"{key} changed under its reader")
        buffer.release()
        ends["ok"] = ends.get("ok", 0) + 1
        me.store.remove(key)
        number += 1
    me.say(ends)


def readers_outlive_the_node_they_read_from(t):
    """K4-09: B is killed again and again while A reads from it; A and its clients see errors, no
    signal, and no wrong byte. 500 rounds with CENOTE_TEST_FULL=1."""
    cluster = Cluster(t, 2, "--pool", "128M")
    a, b = cluster
    size = 4 * MIB
    reader = Client(t, a, "endless_reader", size)
    writer, number = b.connect(), 0
    for _ in range(500 if FULL else 12):
        for _ in range(4):
            until(lambda: b.stats()["pool"]["objects"] < 12, "the reader comes after")
            put(writer, f"k/{number}", 1, size, softpin=True)
            number += 1
        b.kill()
        b.start()
    until(lambda: b.stats()["pool"]["objects"] == 0, "all was read")
    reader.say("end")
    ends = reader.hear()
    reader.end()
    t.note(f"{ends}")
    expect(ends["ok"] == number, f"{number} objects were put, {ends['ok']} read")


@role
def one_reader(me, keys, size):
    """Get each, and say how that ended."""
    for key in keys:
        try:
            check(me.store.get(key), key, 1, size)
            me.say("ok")
        except cenote.CenoteError as error:
            me.say(type(error).__name__)


def a_node_leaves_in_order(t):
    """SIGTERM: nobody suspects it, nor waits; what it alone keeps is UNAVAILABLE at once, and there
    again when it is back, from its pool and from its disk."""
    cluster = Cluster(t, 3, "--pool", "32M", "--disk-size", "512M", disk=True)
    a, b, c = cluster
    at_a, at_b, at_c = cluster.connect()
    keys = [f"k/{i}" for i in range(60)]  # twice its pool
    for key in keys:
        put(at_b, key, 1, MIB, softpin=True)
    removed = [f"r/{i}" for i in range(50)]
    for key in removed:
        put(at_c, key, 1, 1000, softpin=True)
        check(at_a.get(key), key, 1, 1000)
    for round_number in range(3):
        read = [f"read/{i}" for i in range(12)]
        for key in read:
            put(at_b, key, 1, 2 * MIB, softpin=True)
        reader = Client(t, a, "one_reader", read, 2 * MIB)
        reader.heard("ok")
        # What it removes in the last moment is gone everywhere, all the same.
        expect(b.connect().remove(removed.pop()), "removed")
        events = [len(node.events("peer_left")) for node in (a, c)]
        began = time.monotonic()
        b.stop()
        took = time.monotonic() - began
        expect(took < 5, f"it took {took:.1f} s to end")
        left = [len(node.events("peer_left")) for node in (a, c)]
        expect(left == [count + 1 for count in events], "it did not say that it leaves")
        for store in (at_a, at_c):
            began = time.monotonic()
            expect_error(lambda: store.get(keys[round_number]), cenote.Unavailable)
            alone = time.monotonic() - began
            expect(alone < 1, f"a reader waited for {alone:.2f} s")
            expect_error(lambda: store.get("nothing"), cenote.NotFound)
        expect_error(lambda: put(at_a, keys[-1], 2, MIB), cenote.Exists)
        t.note(f"it ended after {took * 1000:.0f} ms; then a reader is told after {alone * 1000:.1f} ms")
        ends = [reader.hear() for _ in read[1:]]
        expect(set(ends) <= {"ok", "Unavailable"}, f"its reader: {ends}")
        reader.end()
        b.start()
        cluster.settle()
        at_b = b.connect()
        expect(at_b.remove_batch(read) == [True] * len(read), "they are there")
        for key in keys[round_number::7]:
            check((at_a, at_b, at_c)[round_number].get(key), key, 1, MIB)
    for key in removed:
        check(at_b.get(key), key, 1, 1000)
    for node in (a, c):
        expect(not node.events("peer_silent") and not node.events("peer_gone"), f"{node.name} missed it")
    for node in cluster:  # all of them, in the same moment
        node.process.signal(signal.SIGTERM)
    for node in cluster:
        expect(node.process.wait() == 0, f"{node.name} did not end well")
        node.start()
    cluster.settle()
    for key in keys:
        check(a.connect().get(key), key, 1, MIB)


@role
def crowd(me, sockets, key, size, rounds):
    """One client for each socket, which attach and get at the same moment."""
    me.say("here")
    me.hear()
    ends = []

    def one(socket):
        try:
            with cenote.connect(socket, timeout=30) as store:
                for number in range(rounds):
                    check(store.get(f"{key}/{number}"), f"{key}/{number}", 1, size)
            ends.append("ok")
        except Exception as error:  # told to the test
            ends.append(f"{type(error).__name__}: {error}")
    threads = [threading.Thread(target=one, args=(socket,)) for socket in sockets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    me.say(ends)


def many_clients_attach_at_once(t):
    """K4-11: 64 clients on three nodes, in the same moment."""
    cluster = Cluster(t)
    store = cluster[0].connect()
    for number in range(4):
        put(store, f"k/{number}", 1, MIB, softpin=True)
    before = [node.counter("attached") for node in cluster]
    sockets = [cluster[i % 3].socket for i in range(64)]
    crowds = [Client(t, None, "crowd", sockets[i::8], "k", MIB, 4) for i in range(8)]
    for one in crowds:
        one.heard("here")
    for one in crowds:
        one.say("go")
    ends = [end for one in crowds for end in one.hear()]
    expect(ends == ["ok"] * 64, f"{[end for end in ends if end != 'ok'][:5]} of {len(ends)}")
    after = [node.counter("attached") for node in cluster]
    expect(sum(after) - sum(before) == 64, f"{sum(after) - sum(before)} attached")
    for node in cluster.nodes[1:]:
        expect(node.cluster("fetches") == 4, f"{node.name} fetched {node.cluster('fetches')} times, of 4 keys")


# ---- addresses ---------------------------------------------------------------


def a_node_is_known_by_its_id(t):
    """K7-17, K4-05: a node comes back on another port, under another name; it is the same node,
    what it keeps is read from it, and goes to its disk."""
    cluster = Cluster(t, 3, "--pool", "32M", "--disk-size", "512M", disk=True)
    a, b, c = cluster
    at_a, at_b, at_c = cluster.connect()
    keys = [f"k/{i}" for i in range(8)]
    for key in keys:
        put(at_b, key, 1, MIB, softpin=True)
    check(at_a.get(keys[0]), keys[0], 1, MIB)
    for endpoint in (f"127.0.0.1:{free_port()}", f"localhost:{free_port()}", f"localhost:{free_port()}"):
        port = endpoint.rpartition(":")[2]
        b.stop()
        b.options += ["--peer-listen", f"0.0.0.0:{port}", "--peer-endpoint", endpoint]
        b.start()
        cluster.settle()
        # More than the pool, so that they lie on the disk under the new address.
        for i in range(30):
            put(at_b, f"{endpoint}/{i}", 1, MIB, softpin=True)
            keys.append(f"{endpoint}/{i}")
        for key in keys[::5]:
            check(at_a.get(key), key, 1, MIB)
            check(at_c.get(key), key, 1, MIB)
    expect(b.stats()["disk"]["objects"] > 0, "nothing went to the disk")
    for node in (a, c):
        expect(node.peers_up() == 2, f"{node.name} can ask {node.peers_up()} others")
    for key in keys:
        expect(at_c.remove(key), f"{key} is lost")


def name_six(t):
    """A name that has an IPv6 address alone, to this program and what it starts."""
    hosts = t.directory / "hosts"
    hosts.write_text(pathlib.Path("/etc/hosts").read_text() + "\n::1 six.test\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    t.later(lambda: subprocess.run(["umount", "/etc/hosts"], check=True))


def nodes_of_all_address_families(t):
    """K16-01: IPv6 in brackets, IPv4, a name, and one that has an IPv6 address alone."""
    redis = Redis(t)
    cluster = Cluster(t, 0, directory=redis)
    addresses = ["[::1]:0", "127.0.0.1:0", "localhost:0"]
    if t.own_mounts:
        name_six(t)
        addresses.append("six.test:0")
    for name, address in zip("abcd", addresses):
        node = Node(t, name, *cluster.common(), "--peer-listen", address)
        if not node.up() and name == "a" and "::1" in node.text():
            raise Skip(f"no IPv6 here: {node.text().splitlines()[-1]}")
        expect(node.lives(), f"{address}: {node.text()[-1000:]}")
        cluster.nodes.append(node)
    cluster.settle()
    stores = cluster.connect()
    names = [node.name for node in cluster]
    for name, store in zip(names, stores):
        put(store, name, 1, 3 * MIB, softpin=True)
    each_reads_all(cluster, names, 3 * MIB)


def nodes_on_link_local_addresses(t):
    """K16-01: [fe80::1%eth0]:p, each in a network of its own."""
    network = Network(t)
    cluster = Cluster(t, 0, directory=Redis(t, address=network.hub.address, host=network.hub))
    for number, name in enumerate("ab", 1):
        host = network.host(name)
        try:
            host.run("ip", "-6", "addr", "add", f"fe80::{number}/64", "dev", "eth0", "nodad")
        except AssertionError as why:
            raise Skip(f"no IPv6 here: {why}") from why
        cluster.nodes.append(Node(t, name, *cluster.common(host), "--peer-listen", f"[fe80::{number}%eth0]:7450",
                                  host=host).start())
    cluster.settle()
    put(cluster[0].connect(), "k", 1, 3 * MIB, softpin=True)
    check(cluster[1].connect().get("k"), "k", 1, 3 * MIB)


def an_address_without_brackets_is_refused(t):
    """K16-01: told apart from a port, with a hint how it is written."""
    cluster = Cluster(t, 0)
    for number, (wrong, hint) in enumerate((("2001:db8::1", "["), ("2001:db8::1:7450", "["), ("127.0.0.1", "port"),
                                            ("127.0.0.1:70000", "port"), ("[::1", "]"))):
        # The port of an endpoint is that which the node listens at, if it names none.
        for option in ("--peer-listen", "--peer-endpoint")[:1 if wrong == "127.0.0.1" else 2]:
            node = Node(t, f"n{number}{option}", *cluster.common(), option, wrong)
            expect(not node.up(), f"{option} {wrong}: it started")
            node.process.wait()
            expect(wrong in node.text() and hint in node.text(), f"{option} {wrong}: {node.text()}")


main(a_stopped_daemon_is_not_dead, a_node_leaves_in_order, a_node_that_is_gone_costs_no_reader_its_time,
     readers_outlive_the_node_they_read_from, many_clients_attach_at_once, a_node_is_known_by_its_id,
     nodes_of_all_address_families, nodes_on_link_local_addresses, an_address_without_brackets_is_refused)
