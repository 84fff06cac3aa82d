#!/usr/bin/python3
"""Objects of several nodes at once: field cases of tiers, of single flight, of batches and of RL
use (K7-13, K11, K12, K18).

K12-05 is not here: objects have no groups. K18-07 is in test_cluster_faults.py. Of K18-05 only
the ratio is told; on a machine that is shared no bound of 20 % can be asserted.
"""

import random
import re
import signal
import threading
import time

from cluster import Client, Cluster, Process, Redis, all_done, cenote, check, expect, main, pattern, put, role, until
from cluster.node import expect_error, press

KIB, MIB = 1 << 10, 1 << 20


def absent(store, key):
    expect_error(lambda: store.get(key), cenote.NotFound)


def gets_fall_through_the_tiers(t):
    """K7-13: from the memory of another node, from its disk, from a third node's copy; without any
    UNAVAILABLE, and LOST when the node is back with nothing."""
    cluster = Cluster(t, 3, "--pool", "32M", "--disk-size", "512M", disk=True)
    c = cluster[2]
    at_a, at_b, at_c = cluster.connect()
    size = 2 * MIB
    for key in ("memory", "disk", "copied", "alone"):
        put(at_c, key, 1, size, softpin=True, durable=True)
    check(at_a.get("memory"), "memory", 1, size)
    expect(c.counter("loads") == 0, "memory was not there any more")
    check(at_b.get("copied"), "copied", 1, size)
    c.kill()
    c.wipe()
    c.start()
    cluster.settle()
    check(at_a.get("disk"), "disk", 1, size)
    expect(c.counter("loads") == 1, "it did not come from the disk")
    c.kill()
    check(at_a.get("copied"), "copied", 1, size)  # from b
    expect_error(lambda: at_a.get("alone"), cenote.Unavailable)
    # Back with its pool and its disk: all is there.
    c.start()
    cluster.settle()
    check(at_a.get("alone"), "alone", 1, size)
    expect(at_a.remove("alone"), "removed")
    # Back as the same node, without its pool: what it had there alone is lost, and is said to be.
    put(at_c, "lost", 1, size, softpin=True)
    c.kill()
    c.wipe()
    c.start()
    cluster.settle()
    for store in (at_a, at_b):
        error = until(lambda s=store: ended(s, "lost"), "the loss is told")
        expect(isinstance(error, cenote.Lost), f"{type(error).__name__}: {error}")
        check(store.get("copied"), "copied", 1, size)
    # Until the key is put again.
    put(at_a, "lost", 2, size, softpin=True)
    check(at_b.get("lost"), "lost", 2, size)


def ended(store, key):
    """The error of a get, but for one that says that it may still come."""
    try:
        store.get(key).release()
    except cenote.Unavailable:
        return None
    except cenote.CenoteError as error:
        return error
    return AssertionError("it was found")


# ---- single flight -----------------------------------------------------------


@role
def getting(me, sockets, key, size):
    """A client for each socket; all get at the same moment."""
    stores = [cenote.connect(socket, timeout=30) for socket in sockets]
    me.say("here")
    me.hear()
    ends = []

    def one(store):
        try:
            check(store.get(key, timeout=30), key, 1, size)
            ends.append("ok")
        except Exception as error:  # told to the test
            ends.append(type(error).__name__)
    threads = [threading.Thread(target=one, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    me.say(ends)


def one_fetch_a_node_for_many(t):
    """K11-01: 64 clients on four nodes get the same object, which is only on the disk of one."""
    cluster = Cluster(t, 4, "--pool", "64M", "--disk-size", "512M", disk=True)
    a = cluster[0]
    store, size = a.connect(), 16 * MIB
    put(store, "k", 1, size, softpin=True)
    press(a, store, ["k"])
    loads = a.counter("loads")
    sockets = [cluster[i % 4].socket for i in range(64)]
    clients = [Client(t, None, "getting", sockets[i::8], "k", size) for i in range(8)]
    for one in clients:
        one.heard("here")
    for one in clients:
        one.say("go")
    ends = [end for one in clients for end in one.hear()]
    expect(ends == ["ok"] * 64, f"{ends}")
    expect(a.counter("loads") == loads + 1, f"{a.counter('loads') - loads} reads of the disk")
    for node in cluster.nodes[1:]:
        stats = node.stats()
        t.note(f"{node.name}: {stats['cluster']['fetches']} fetch, {stats['cluster']['fetches_joined']} joined")
        expect(stats["cluster"]["fetches"] == 1, f"{node.name} fetched {stats['cluster']['fetches']} times")
        expect(stats["cluster"]["fetched_bytes"] == size, "of all its bytes")
        expect(stats["pool"]["objects"] == 1, f"{node.name} has {stats['pool']['objects']} copies")


def what_is_absent_is_asked_once(t):
    """K11-05: while the directory takes its time, the clients of a node share one question, and
    those who came after it was sent one more; a put is seen at once by whoever asks after it."""
    redis = Redis(t)
    cluster = Cluster(t, 4, directory=redis)
    monitor = t.directory / "monitor"
    Process(t, "monitor", ["redis-cli", "-p", str(redis.port), "MONITOR"], log=monitor)
    until(lambda: "OK" in monitor.read_text(), "the directory's commands are seen")
    sockets = [cluster[i % 4].socket for i in range(16)]
    clients = [Client(t, None, "getting", sockets[i::4], "nothing", 0) for i in range(4)]
    for one in clients:
        one.heard("here")
    joined = cluster.sum("fetches_joined")
    redis.process.signal(signal.SIGSTOP)
    for one in clients:
        one.say("go")
    until(lambda: cluster.sum("fetches_joined") == joined + 12, lambda: f"{cluster.sum('fetches_joined')} joined")
    redis.process.signal(signal.SIGCONT)
    expect([end for one in clients for end in one.hear()] == ["NotFound"] * 16, "it was found")
    # Each look-up is a script on the key of the object.
    asked = len(re.findall(r'"EVALSHA".*"cenote:o:[0-9a-f]{32}"', monitor.read_text(), re.I))
    t.note(f"16 clients on 4 nodes asked {asked} times")
    expect(4 <= asked <= 8, f"the directory was asked {asked} times")
    # No stale no: on every node, at once, again and again.
    stores = cluster.connect()
    for number in range(200):
        key, writer = f"k/{number}", stores[number % 4]
        for store in stores:
            absent(store, key)
        put(writer, key, 1, 100)
        for store in stores:
            check(store.get(key), key, 1, 100)


# ---- batches -----------------------------------------------------------------


def each_key_of_a_batch_put_has_its_result(t):
    """K12-01: new, there with the same bytes, there with others, twice in the batch; what is there
    is on another node."""
    cluster = Cluster(t)
    at_a, at_b, at_c = cluster.connect()
    put(at_a, "same", 1, 5000, softpin=True)
    put(at_a, "other", 1, 100_000, softpin=True)
    keys = ["new", "same", "other", "twice", "twice"]
    values = [pattern("new", 1, 10), pattern("same", 1, 5000), pattern("other", 2, 10), pattern("twice", 1, 70_000),
              pattern("twice", 2, 10)]
    results = at_b.put_batch(keys, values, softpin=True)
    names = [type(one).__name__ for one in results]
    expect(names == ["NoneType", "Exists", "Exists", "NoneType", "Exists"], f"{names}")
    for store in (at_c, at_b, at_a):
        for key, size in (("new", 10), ("same", 5000), ("other", 100_000), ("twice", 70_000)):
            check(store.get(key), key, 1, size)


def a_batch_get_leaves_nothing_behind(t):
    """K12-03: of 100 keys 30 are absent; after each round pools, pins and leases are as before."""
    cluster = Cluster(t)
    at_a, at_b, at_c = stores = cluster.connect()
    rounds = 40
    for number in range(rounds):
        keys = [f"{number}/{i}" for i in range(100)]
        there = [key for i, key in enumerate(keys) if i % 10 < 7]
        sizes = {key: random.Random(key).choice((100, 3000, 90_000)) for key in there}
        all_done(at_a.put_batch(there, [pattern(key, 1, sizes[key]) for key in there], softpin=True))
        for store in (at_b, at_c):
            got = store.get_batch(keys)
            for key, one in zip(keys, got):
                if key in sizes:
                    check(one, key, 1, sizes[key])
                else:
                    expect(isinstance(one, cenote.NotFound), f"{key}: {one!r}")
        removed = stores[number % 3].remove_batch(keys)
        expect(removed == [key in sizes for key in keys], "what was removed is what was there")
        for node in cluster:
            until(lambda: node.used() == 0, lambda: f"{node.name} uses {node.used()} bytes after round {number}")
            stats = node.stats()
            expect(stats["pool"]["leases"] == 0 and stats["node"]["pins"] == 0, f"{node.name}: leases or pins are left")


# ---- removal -----------------------------------------------------------------


@role
def weights(me, number):
    """Put and get under the prefix until told to stop; then say when each put began and ended."""
    puts, held, serial = [], None, 0
    while not me.was_told():
        key = f"w12/{number}/{serial}"
        serial += 1
        began = time.monotonic()
        try:
            put(me.store, key, 1, 20_000, softpin=True)
            end = "ok"
        except cenote.Removed:
            end = "removed"
        puts.append([key, began, time.monotonic(), end])
        try:
            buffer = me.store.get(key)
            if held is None:
                held = (key, buffer)  # a reader that goes on over the removal
                me.say("here")
                continue
            check(buffer, key, 1, 20_000)
        except cenote.NotFound:
            pass
    check(held[1], held[0], 1, 20_000)
    me.say(puts)


def remove_prefix_while_they_read_and_put(t):
    """K18-01: all that was put before is gone on every node when it returns; running readers finish
    with the old bytes; a put that began before and ends after brings nothing back."""
    cluster = Cluster(t, 3, "--pool", "128M")
    stores = cluster.connect()
    for turn in range(3):
        started = [store.create(f"w12/started/{name}", 5000, softpin=True) for name, store in zip("abc", stores)]
        clients = [Client(t, cluster[i % 3], "weights", f"{turn}.{i}") for i in range(8)]
        for one in clients:
            one.heard("here")
        until(lambda: sum(node.stats()["pool"]["objects"] for node in cluster) > 400, "they put")
        began = time.monotonic()
        count = stores[turn].remove_prefix("w12/")
        over = time.monotonic()
        for writer in started:
            writer[:] = bytes(5000)
            expect_error(writer.seal, cenote.Removed)
        for one in clients:
            one.say("stop")
        puts = [record for one in clients for record in one.hear()]
        for one in clients:
            one.end()
        old = [key for key, _, end, how in puts if end < began and how == "ok"]
        t.note(f"{count} removed in {(over - began) * 1000:.0f} ms, {len(old)} of {len(puts)} puts were over before it")
        expect(count >= len(old), f"{count} removed of {len(old)}")
        for number, key in enumerate(old):
            absent(stores[number % 3], key)
        for store in stores:
            for name in "abc":
                absent(store, f"w12/started/{name}")
        # Those that were put while it ran are all there or all gone, and then removed as well.
        for key, _, end, _ in puts:
            if end < began:
                continue
            found = {had(store, key) for store in stores}
            expect(len(found) == 1, f"{key} is on one node and not on another")
        stores[turn].remove_prefix("w12/")
        for node in cluster:
            until(lambda: node.used() == 0, lambda: f"{node.name} still uses {node.used()} bytes")


def had(store, key):
    try:
        check(store.get(key), key, 1, 20_000)
        return True
    except cenote.NotFound:
        return False


@role
def taker(me, keys, size, seed):
    """Take each of the keys, in an order of its own; which of them were mine."""
    random.Random(seed).shuffle(keys)
    me.say("here")
    me.hear()
    mine = []
    for key in keys:
        try:
            check(me.store.take(key), key, 1, size)
            mine.append(key)
        except cenote.NotFound:
            pass
    me.say(mine)


def one_of_all_takers_gets_it(t):
    """K18-03: 8 consumers on three nodes race for the same keys, which three producers have put."""
    cluster = Cluster(t)
    stores = cluster.connect()
    size, keys = 8000, [f"k/{i}" for i in range(300)]
    for i, key in enumerate(keys):
        put(stores[i % 3], key, 1, size, softpin=i % 2 == 0)
    takers = [Client(t, cluster[i % 3], "taker", keys, size, i) for i in range(8)]
    for one in takers:
        one.heard("here")
    for one in takers:
        one.say("go")
    taken = [key for one in takers for key in one.hear()]
    for one in takers:
        one.end()
    expect(sorted(taken) == sorted(keys), f"{len(taken)} taken, {len(set(taken))} of {len(keys)} keys")
    for store in stores:
        absent(store, keys[0])
    for node in cluster:
        until(lambda: node.used() == 0, lambda: f"{node.name} still uses {node.used()} bytes")


@role
def trainer(me, rows, fields, size):
    """One rank: get its rows from where they were put, compare, and say how long the gets took."""
    me.say("here")
    me.hear()
    began = time.monotonic()
    for row in rows:
        got = me.store.get_batch([f"row/{row}/{field}" for field in range(fields)], timeout=60)
        for field, one in enumerate(got):
            check(one, f"row/{row}/{field}", 1, size)
    me.say(time.monotonic() - began)


def four_times_the_samples(t):
    """K18-05: rows of 9 fields of 8,192 tokens, put on one node, read by 8 ranks on the others."""
    cluster = Cluster(t, 3, "--pool", "512M")
    store = cluster[0].connect()
    fields, size, seconds = 9, 16 * KIB, []
    for count in (128, 512):
        ranks = [Client(t, cluster[1 + i % 2], "trainer", list(range(i, count, 8)), fields, size) for i in range(8)]
        for one in ranks:
            one.heard("here")
        began = time.monotonic()
        for row in range(count):
            keys = [f"row/{row}/{field}" for field in range(fields)]
            all_done(store.put_batch(keys, [pattern(key, 1, size) for key in keys], softpin=True))
        middle = time.monotonic()
        for one in ranks:
            one.say("go")
        for one in ranks:
            one.hear()
            one.end()
        got = time.monotonic()
        expect(store.remove_prefix("row/") >= count * fields, "all of them were there")
        seconds.append(time.monotonic() - began)
        t.note(f"{count} rows: put {middle - began:.2f} s, read {got - middle:.2f} s, all {seconds[-1]:.2f} s")
        for node in cluster:
            until(lambda: node.used() == 0, f"{node.name} is empty")
    t.note(f"four times the rows took {seconds[1] / seconds[0]:.2f} times as long")


main(gets_fall_through_the_tiers, one_fetch_a_node_for_many, what_is_absent_is_asked_once,
     each_key_of_a_batch_put_has_its_result, a_batch_get_leaves_nothing_behind, remove_prefix_while_they_read_and_put,
     one_of_all_takers_gets_it, four_times_the_samples)
