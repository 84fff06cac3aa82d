#!/usr/bin/python3
"""What a node promised to keep, and has no room for: it goes to a peer, which becomes its keeper. Field
cases of that: K4-13, K6-11, K7-03, K7-05, K7-13, K13-01, K13-03, K13-05.

K7-07, an overwrite while the old value is moved, is in tests/unit/test_node_keep and test_move, which hold
the move; K6-01 to K6-09 and K7-09, K7-11, K7-15 are of one node: test_pressure, test_move, test_disk.
"""

import subprocess
import threading
import time

from cluster import (DEBUG, Aside, Client, Cluster, Job, Network, Node, Redis, cenote, check, expect, main, put, role,
                     until)
from cluster.node import expect_error, press
from cluster.programs import free_port

MIB = 1 << 20
POOL = ("--pool", "256M")
LOAD = "ClientLocalCopyAfterPutStart"  # of the daemon: the room for a copy is there, and nothing in it
JOB = "15s"  # the main job goes on so long, which is more than a drain takes


def moved(cluster):
    """Bytes that went from node to node so far."""
    return cluster.sum("fetched_bytes") + cluster.sum("handed_bytes")


def at_rest(cluster, seconds=2):
    """Nothing moves, without a reader or a writer."""
    until(lambda: not any(node.stats()["pool"]["waiting"] for node in cluster), "nobody waits")
    last = {"moved": moved(cluster), "at": time.monotonic()}

    def rests(span):
        now = moved(cluster)
        if now != last["moved"]:
            last.update(moved=now, at=time.monotonic())
        return time.monotonic() - last["at"] > span

    until(lambda: rests(1), "what was begun ends")
    before = last["moved"]
    until(lambda: rests(1 + seconds) or last["moved"] != before, "the watch ends")
    expect(last["moved"] == before, f"{last['moved'] - before} bytes moved at rest")


def a_full_node_gives_to_its_neighbour(t):
    """K13-03: 400 objects of 1 MiB, put on one of two nodes of 256 MiB without a disk, can be read from either."""
    cluster = Cluster(t, 2, *POOL)
    a, b = cluster
    at_a, at_b = cluster.connect(timeout=60)
    keys = [f"k/{i}" for i in range(400)]
    began = time.monotonic()
    for key in keys:
        put(at_a, key, 1, MIB, softpin=True)
    took = time.monotonic() - began
    handed = a.cluster("handed")
    expect(handed >= 400 - 256, f"only {handed} objects were handed over")
    until(lambda: a.cluster("handed") == b.cluster("kept"), "what one gave the other took")
    at_rest(cluster)
    for store in (at_a, at_b):
        for key in keys:
            check(store.get(key), key, 1, MIB)
    expect(a.cluster("swapouts_failed") == 0, "hand-overs failed")
    t.note(f"{len(keys) / took:.0f} puts a second, {handed} handed over, {a.cluster('swapouts_refused')} refused; at "
           f"rest nothing moves")
    for key in keys:
        at_b.remove(key)
    until(lambda: a.stats()["pool"]["objects"] == 0 and b.stats()["pool"]["objects"] == 0, "all is gone")


def both_are_full(t):
    """K13-03: puts wait, and then there is no space; what was acknowledged is there."""
    cluster = Cluster(t, 2, *POOL)
    stores = cluster.connect(timeout=60)
    acknowledged = []
    refused = []

    def fill(which):
        store, number = stores[which], 0
        while True:
            key = f"{which}/{number}"
            try:
                put(store, key, 1, MIB, softpin=True, timeout=2)
            except cenote.NoSpace as error:
                refused.append(str(error))
                return
            acknowledged.append(key)
            number += 1

    threads = [threading.Thread(target=fill, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(len(refused) == 2, f"{len(refused)} of two were refused")
    expect(len(acknowledged) >= 2 * 240, f"only {len(acknowledged)} MiB fit into two pools of 256 MiB")
    at_rest(cluster)
    # From the node it lies on, or where it was put.
    for key in acknowledged:
        check(stores[int(key[0])].get(key), key, 1, MIB)
    expect_error(lambda: put(stores[0], "more", 1, MIB, softpin=True, timeout=1), cenote.NoSpace)
    for key in acknowledged[:32]:
        stores[1].remove(key)
    for i in range(16):
        put(stores[0], f"again/{i}", 1, MIB, softpin=True)
    t.note(f"{len(acknowledged)} MiB acknowledged in 2 x 256 MiB, {cluster.sum('handed')} handed over, "
           f"{cluster.sum('keeps_refused')} refused")


def killed_while_objects_move(t, which):
    """kill -9 of one of the two, again and again: nothing that was acknowledged is lost."""
    cluster = Cluster(t, 2, *POOL)
    stores = cluster.connect(timeout=60)
    keys = []
    for i in range(360):
        key = f"k/{i}"
        put(stores[0], key, 1, MIB, softpin=True)
        keys.append(key)
        if i in (270, 300, 330):
            cluster[which].restart()
    cluster.settle()
    for store in stores:
        for key in keys:
            check(store.get(key), key, 1, MIB)
    return cluster


def the_giver_is_killed_while_it_gives(t):
    cluster = killed_while_objects_move(t, 0)
    t.note(f"{cluster[1].cluster('kept')} taken over")


def the_taker_is_killed_while_it_takes(t):
    cluster = killed_while_objects_move(t, 1)
    t.note(f"{cluster[0].cluster('swapouts_failed')} hand-overs were cut")


def one_node_with_a_disk(t, name, *options):
    """Of two; the other has no disk."""
    cluster = Cluster(t, 1, "--pool", "96M", directory=Redis(t, f"redis-{name}"), names=[f"{name}-other"])
    a = Node(t, name, *cluster.common(), "--pool", "32M", "--disk", str(t.directory / f"{name}-disk"),
             *options).start()
    cluster.nodes.append(a)
    cluster.settle()
    return cluster, a


def the_disk_or_peers_come_first(t):
    """As --swapout-first says; and the other of the two when there is no room. Each put waits until
    what it drove out has gone: a peer that is still busy is passed over for the disk."""
    for first in ("disk", "peer"):
        cluster, a = one_node_with_a_disk(t, first, "--swapout-first", first)
        at_a, keys = a.connect(timeout=60), []
        for i in range(160):
            keys.append(f"{first}/{i}")
            put(at_a, keys[-1], 1, MIB, softpin=True)
            until(lambda: cluster[0].cluster("keeps_under_way") + a.stats()["disk"]["jobs_under_way"] == 0,
                  "what was driven out has gone")
        handed, saved = a.cluster("handed"), a.counter("saves")
        t.note(f"{first} first: {handed} handed over, {saved} written out; "
               f"{a.stats()['disk']['save_bytes_per_second'] >> 20} MiB/s to the disk, "
               f"{a.cluster('swapout_bytes_per_second') >> 20} MiB/s to the peer")
        expect(handed == 0 if first == "disk" else handed > 60 and saved > 10, f"{handed} handed, {saved} saved")
        for key in keys:
            check(cluster[0].connect().get(key), key, 1, MIB)


def small_pools(t, count=2, **options):
    """Nodes that keep their addresses when they are started anew, as hosts do."""
    cluster = Cluster(t, 0)
    for name in "abc"[:count]:
        cluster.nodes.append(Node(t, name, *cluster.common(), "--pool", "32M", "--peer-listen",
                                  f"127.0.0.1:{free_port()}", **options).start())
    cluster.settle()
    return cluster


def give_some(a, store, count=48):
    """Put more than fits into the pool of a; the keys, and those of what went to the other node."""
    keys = [f"k/{i}" for i in range(count)]
    for key in keys:
        put(store, key, 1, MIB, softpin=True)
    until(lambda: a.cluster("handed") > 0, "some were handed over")
    given = [key for key, stat in zip(keys, store.stat_batch(keys)) if not stat.in_pool]
    expect(given, "all are still in the pool")
    return keys, given


def read_by_every_call(store, keys, size=MIB):
    into = bytearray(size)
    for key in keys:
        check(store.get(key), key, 1, size)
        expect(store.get_into(key, into) == size, f"get_into of {key}")
        check(bytes(into), key, 1, size)
        expect(store.exists(key) and store.stat(key).size == size, f"{key} is not there")
        store.touch(key)
        store.wait(key, timeout=10)
    for got, key in zip(store.get_batch(keys), keys):
        check(got, key, 1, size)
    buffers = [bytearray(size) for _ in keys]
    expect(store.get_into_batch(keys, buffers) == [size] * len(keys), "get_into_batch")
    for buffer, key in zip(buffers, keys):
        check(bytes(buffer), key, 1, size)
    listed = {entry.key for entry in store.list("k/")}
    expect(set(keys) <= listed, f"{set(keys) - listed} are not listed")


def every_call_reads_what_was_handed_over(t):
    """K7-03, K7-05: from the node that gave it, and from the one that has it; while others are being
    moved as well. Each is moved once, and nothing stays pinned."""
    cluster = small_pools(t)
    a, b = cluster
    at_a, at_b = cluster.connect(timeout=60)
    keys, given = give_some(a, at_a)
    for store in (at_a, at_b):
        read_by_every_call(store, given[:4])
    put_more = Aside(lambda: [put(at_a, f"more/{i}", 1, MIB, softpin=True) for i in range(6)])
    while put_more.is_alive():
        read_by_every_call(at_b, keys[-4:])
    put_more.end()
    until(lambda: a.cluster("handed") == b.cluster("kept"), "what one gave the other took, once")
    for node in cluster:
        stats = node.stats()
        expect(stats["node"]["pins"] == 0, f"{node.name} has pins")
        until(lambda n=node: n.stats()["pool"]["leases"] == 0, "leases end")
    for key in keys:
        expect(at_b.remove(key), f"{key} is lost")


def what_was_handed_over_is_lost_with_its_new_keeper_alone(t):
    """K7-13: the tiers in order, then UNAVAILABLE while its node is away, and LOST at the end."""
    cluster = small_pools(t)
    a, b = cluster
    at_a = a.connect(timeout=60)
    keys, given = give_some(a, at_a)
    b.kill()
    for key in given[:3]:
        expect_error(lambda k=key: at_a.get(k), cenote.Unavailable)
    for key in keys:
        if key not in given:
            check(at_a.get(key), key, 1, MIB)
    b.start()
    cluster.settle()
    for key in given:
        check(at_a.get(key), key, 1, MIB)
    copies = [key for key, stat in zip(given, at_a.stat_batch(given)) if stat.in_pool]
    b.kill()
    b.wipe()
    b.start()
    cluster.settle()

    def told():
        ends = []
        for key in given:
            if key in copies:
                continue
            try:
                at_a.get(key).release()
                ends.append("found")
            except cenote.CenoteError as error:
                ends.append(type(error).__name__)
        return "Unavailable" not in ends and ends
    ends = until(told, "what became of them is known", 20)
    expect(set(ends) == {"Lost"}, f"{ends}")
    for key in keys:
        if key not in given:
            check(b.connect().get(key), key, 1, MIB)
    t.note(f"{len(given)} were handed over, {len(ends)} of them lost with their keeper")


def a_time_to_live_goes_with_the_role(t):
    """K13-01: what has one is handed over, and read all the while: it ends when it ends."""
    cluster = small_pools(t)
    a = cluster[0]
    stores = cluster.connect(timeout=60)
    keys = [f"t/{i}" for i in range(8)]
    began = time.monotonic()
    for key in keys:
        put(stores[0], key, 1, MIB, softpin=True, ttl=6)
        check(stores[0].get(key), key, 1, MIB)  # what was read leaves first
    put_at = time.monotonic()
    for i in range(30):
        put(stores[0], f"k/{i}", 1, MIB, softpin=True)
    expect(not all(stat.in_pool for stat in stores[0].stat_batch(keys)), "none was handed over")
    while time.monotonic() < began + 5:
        for store in stores:
            for key in keys:
                check(store.get(key), key, 1, MIB)
    for store in stores:
        for key in keys:
            until(lambda s=store, k=key: not s.exists(k), f"{key} ends")
            expect_error(lambda s=store, k=key: s.get(k), cenote.NotFound)
    took = time.monotonic() - put_at
    expect(5 < took < 10, f"they ended {took:.1f} s after they were put")
    expect(a.cluster("handed") > 0, "nothing was handed over")


def nothing_but_a_removal_ends_what_is_kept(t):
    """K13-05: reclaim, hand-over, a drain and its end, kill -9, an orderly end, a load that fails."""
    cluster = small_pools(t, 3, build=DEBUG)
    a, b, c = cluster
    at_a, _, at_c = stores = cluster.connect(timeout=60)
    keys, _ = give_some(a, at_a)
    for i in range(100):
        put(at_a, f"cache/{i}", 1, MIB)
    at_a.drain()
    until(lambda: a.cluster("drain")["state"] == "empty", "it is empty")
    at_a.drain(end=True)
    for node in (b, c):
        node.restart()
    cluster.settle()
    a.stop()
    a.start()
    cluster.settle()
    at_c.remove_prefix("cache/")
    expect(not at_a.list("cache/"), "cache objects are there that were removed")
    for key, stat in zip(keys, at_c.stat_batch(keys)):
        if not stat.in_pool:
            expect(at_c.inject_fault_local_master(LOAD, "return_error", -801, 1, 1) == 0, "armed")
            expect_error(lambda k=key: at_c.get(k), cenote.Corrupt)
    expect(at_c.get_fault_status_local_master(LOAD)["fired"] == 1, "no load has failed")
    reader = Aside(lambda: [cluster[1].connect().get(key).release() for key in keys[:8]])
    for key in keys:
        check(at_c.get(key), key, 1, MIB)
    reader.end()
    for number, key in enumerate(keys):
        expect(stores[number % 3].remove(key), f"{key} is lost")
    for node in cluster:
        until(lambda n=node: n.used() == 0, lambda: f"{node.name} uses {node.used()} bytes")


def a_node_that_comes_back_empty_is_not_overrun(t):
    """K6-11: of three that are nearly full one loses its pool, and the others put on. It takes over one
    object at a time at first, and serves its own clients; what is put stays where it was put."""
    cluster = small_pools(t, 3)
    a, b, c = cluster
    at_a, at_b, at_c = cluster.connect(timeout=60)
    for name, store in zip("abc", (at_a, at_b, at_c)):
        for i in range(28):
            put(store, f"{name}/{i}", 1, MIB, softpin=True)
    c.kill()
    c.wipe()
    c.start()
    cluster.settle()
    failed = []

    def fill(name, store):
        for i in range(36):
            try:
                put(store, f"{name}/new/{i}", 1, MIB // 4, softpin=True)
            except cenote.CenoteError as error:
                failed.append(f"{name}/new/{i}: {error}")
    threads = [threading.Thread(target=fill, args=pair) for pair in (("a", at_a), ("b", at_b))]
    for thread in threads:
        thread.start()
    at_c, most, slowest, number = c.connect(), 0, 0, 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, c.cluster("keeps_under_way"))
        began = time.monotonic()
        put(at_c, f"own/{number}", 1, 10_000, softpin=True)
        slowest = max(slowest, time.monotonic() - began)
        number += 1
    expect(not failed, f"{len(failed)} puts failed: {failed[:2]}")
    expect(most <= 1, f"it took over {most} at once")
    expect(c.cluster("kept") > 0, "it took nothing over")
    for name, store in (("a", at_a), ("b", at_b)):
        expect(store.stat(f"{name}/new/35").in_pool, "what was put last is not where it was put")
        for i in range(28):
            check(at_c.get(f"{name}/{i}"), f"{name}/{i}", 1, MIB)
        for i in range(36):
            check(at_c.get(f"{name}/new/{i}"), f"{name}/new/{i}", 1, MIB // 4)
    t.note(f"{c.cluster('kept')} taken over, {cluster.sum('swapouts_refused')} refused; {number} puts of its own, the "
           f"slowest {slowest * 1000:.0f} ms")


@role
def reads(me, keys, size):
    for key in keys:
        check(me.store.get(key, timeout=60), key, 1, size)
        me.say("ok")


def a_node_is_stopped_when_it_is_safe(t):
    """K4-13: drained while others read from it, slowly: new placements stop, the reads that run end, all
    that it keeps goes to others, it says that it is empty, and then it ends. Nothing is lost."""
    network = Network(t)
    redis = Redis(t, address=network.hub.address, host=network.hub)
    cluster = Cluster(t, 3, directory=redis, hosts=[network.host(name) for name in "abc"])
    a, b, c = cluster
    at_b = b.connect(timeout=60)
    keys, size = [f"k/{i}" for i in range(8)], 2 * MIB
    for key in keys:
        put(at_b, key, 1, size, softpin=True)
    b.host.slow(10 * MIB)
    reader = Client(t, a, "reads", keys, size)
    reader.heard("ok")
    at_b.drain()
    expect_error(lambda: put(at_b, "more", 1, MIB, softpin=True), cenote.Unavailable)
    for _ in keys[1:]:
        reader.heard("ok")
    reader.end()
    until(lambda: b.cluster("drain")["state"] == "empty", "it is empty")
    b.stop()
    for key in keys:
        check(c.connect().get(key), key, 1, size)
        check(a.connect().get(key), key, 1, size)


def drain(node, *options):
    """The command, to its end."""
    done = subprocess.run([node.build / "cenote", "drain", "--socket", node.socket, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
    expect(done.returncode == 0, f"cenote drain: exit {done.returncode}: {done.stdout}")
    return done.stdout


def read_all_the_while(store, keys, size, ended):
    """In another thread, until `ended` is set; a call that fails is told by the list."""
    failed, count = [], [0]

    def loop():
        try:
            while not ended.is_set():
                check(store.get(keys[count[0] % len(keys)], timeout=60), keys[count[0] % len(keys)], 1, size)
                count[0] += 1
        except (cenote.CenoteError, AssertionError) as error:
            failed.append(error)
    thread = threading.Thread(target=loop)
    thread.start()
    return thread, failed, count


def a_node_is_emptied(t):
    """What it keeps, also what lies on its disk alone, goes to the others, and it can be taken away; under
    the main job of the other three, which gives it second copies to keep. No call fails."""
    cluster = Cluster(t, 3, "--pool", "96M")
    a = Node(t, "d", *cluster.common(), "--pool", "96M", "--disk", str(t.directory / "d-disk"),
             "--swapout-first", "disk").start()
    cluster.nodes.append(a)
    cluster.settle()
    at_a = a.connect(timeout=60)
    keys = [f"k/{i}" for i in range(100)]
    for key in keys:
        put(at_a, key, 1, MIB, softpin=True)
    press(a, at_a, keys[:60], MIB)  # and what they had of the pool is free: there is room for the job's
    put(at_a, "cache", 1, MIB)
    alone = [key for key, stat in zip(keys, at_a.stat_batch(keys)) if stat.on_disk and not stat.in_pool]
    expect(len(alone) > 50, "nothing lies on the disk alone")
    expect(a.cluster("drain") == {"state": "off"}, "it is being drained already")
    job = Job(t, [node for node in cluster if node is not a], "--replicas", "2", "--live", "40%", "--for", JOB)
    kept = a.cluster("kept")
    until(lambda: job.is_at_work() and a.cluster("kept") > kept + 50, "objects of the job go there as well")
    ended = threading.Event()
    reader, failed, count = read_all_the_while(at_a, keys, MIB, ended)
    handed = a.cluster("handed")
    try:
        said = drain(a)
    finally:
        ended.set()
        reader.join()
    expect("empty: 0 objects left in the pool, 0 on disk alone" in said, said)
    expect(not failed, f"a get on the node failed: {failed}")
    handed = a.cluster("handed") - handed
    expect(handed >= len(keys), f"it handed over {handed}, and kept {len(keys)} and some of the job's")
    job.look()
    state = a.cluster("drain")
    expect(state["state"] == "empty" and state["kept_in_pool"] == 0, f"{state}")
    expect_error(lambda: put(at_a, "more", 1, MIB, softpin=True), cenote.Unavailable)
    check(at_a.get(keys[0]), keys[0], 1, MIB)
    a.stop()
    job.look()
    stores = [node.connect(timeout=60) for node in cluster if node is not a]
    for i, key in enumerate(keys):
        check(stores[i % 3].get(key), key, 1, MIB)
    job = job.end()
    t.note(f"{said.strip().splitlines()[-1]}, {len(alone)} of {len(keys)} were on its disk alone; {count[0]} gets there "
           f"meanwhile; the job: {job['puts']} puts, {job['gets']} gets, {job['puts_by_keepers']} kept by one and two")
    a.start()
    cluster.settle()
    at_a = a.connect(timeout=60)
    put(at_a, "more", 1, MIB, softpin=True)
    expect(a.cluster("drain") == {"state": "off"}, "a restart did not end it")
    drain(a, "--no-wait")
    drain(a, "--end")
    put(at_a, "and more", 1, MIB, softpin=True)
    at_a.drain()
    expect_error(lambda: put(at_a, "not", 1, MIB, softpin=True), cenote.Unavailable)
    at_a.drain(end=True)
    put(at_a, "not", 1, MIB, softpin=True)


def one_of_two_nodes_is_emptied(t):
    """The other keeps the replicas already. What is durable stays while there is no other disk."""
    cluster = Cluster(t, 1, "--pool", "32M")
    a = Node(t, "b", *cluster.common(), "--pool", "32M", "--disk", str(t.directory / "b-disk")).start()
    cluster.nodes.append(a)
    cluster.settle()
    at_other, at_a = cluster.connect(timeout=60)
    keys = [f"k/{i}" for i in range(8)]
    for key in keys:
        put(at_a, key, 1, MIB, softpin=True, replicas=2, replicas_required=True)
    put(at_a, "durable", 1, MIB, softpin=True, durable=True)
    drain(a, "--no-wait")
    until(lambda: a.cluster("drain")["durable_and_no_disk"] == 1, "it says what waits for a disk")
    until(lambda: a.cluster("drain")["kept_in_pool"] + a.cluster("drain")["only_on_disk"] == 1, "that alone is left")
    expect(a.cluster("drain")["state"] == "moving", "it is empty, and keeps something")
    at_a.remove("durable")
    drain(a)
    a.stop()
    for key in keys:
        check(at_other.get(key), key, 1, MIB)


main(a_full_node_gives_to_its_neighbour, both_are_full, the_giver_is_killed_while_it_gives,
     the_taker_is_killed_while_it_takes, the_disk_or_peers_come_first,
     every_call_reads_what_was_handed_over, what_was_handed_over_is_lost_with_its_new_keeper_alone,
     a_time_to_live_goes_with_the_role, nothing_but_a_removal_ends_what_is_kept,
     a_node_that_comes_back_empty_is_not_overrun, a_node_is_stopped_when_it_is_safe, a_node_is_emptied,
     one_of_two_nodes_is_emptied)
