#!/usr/bin/python3
"""What several nodes keep: it outlives each but the last of them, and gets others in their place.

`--rounds N` or $CENOTE_REPLICAS_ROUNDS: how often a node is killed and emptied under load (2).
"""

import json
import subprocess
import time

from cluster import BUILD, Cluster, Job, Node, cenote, check, expect, main, pattern, rounds, until
from cluster.job import kill_node
from cluster.node import expect_error

MIB = 1 << 20
POOL = ("--pool", "256M")


def put(store, key, size=MIB, version=1, replicas=2, **options):
    """How many nodes keep it then."""
    return store.put(key, pattern(key, version, size), softpin=True, replicas=replicas, **options)


def check_all(stores, keys, size=MIB):
    for store in stores:
        for key in keys:
            check(store.get(key), key, 1, size)


def rebuilt(nodes):
    """Nothing is left to be rebuilt, nor being."""
    return all(node.cluster("rebuild") == {"state": "off", "left": 0} for node in nodes)


def lose(node):
    """Its daemon and its pool, at once."""
    node.kill()
    node.wipe()


def a_lost_node_is_made_up_for(t):
    """replicas=2 on three nodes, of which one after the other loses its pool."""
    cluster = Cluster(t, 3, *POOL)
    a, b, c = cluster
    stores = cluster.connect(timeout=60)
    keys = []
    for i in range(60):
        for which, store in enumerate(stores):
            keys.append(f"{which}/{i}")
            expect(put(store, keys[-1]) == 2, f"{keys[-1]} has not two keepers")
    expect(cluster.sum("spread") == len(keys), f"{cluster.sum('spread')} of {len(keys)} went to a second node")
    kept_by_c = 60 + c.cluster("kept")
    lose(c)
    began = time.monotonic()
    check_all(stores[:2], keys)
    until(lambda: a.cluster("rebuilt") + b.cluster("rebuilt") >= kept_by_c and rebuilt((a, b)),
          lambda: f"of {kept_by_c} that c kept {a.cluster('rebuilt')} and {b.cluster('rebuilt')} have other keepers")
    took = time.monotonic() - began
    expect(a.cluster("rebuilt") + b.cluster("rebuilt") == kept_by_c, "more was rebuilt than was lost")
    c.start()
    cluster.settle()
    expect(c.stats()["pool"]["objects"] == 0, "it is back, and not empty")
    lose(a)  # with whom c's have gone, if nobody had taken them over
    stores[2] = c.connect(timeout=60)
    check_all(stores[1:], keys)
    until(lambda: rebuilt((b, c)) and b.cluster("rebuilt") + c.cluster("rebuilt") >= 60, "what a kept is rebuilt")
    a.start()
    cluster.settle()
    lose(b)
    stores[0] = a.connect(timeout=60)
    check_all((stores[0], stores[2]), keys)
    for key in keys:
        expect(stores[0].remove(key), f"{key} was not there")
    until(lambda: a.stats()["pool"]["objects"] == 0 and c.stats()["pool"]["objects"] == 0, "all is gone")
    t.note(f"{kept_by_c} second keepers of 1 MiB rebuilt {took:.1f} s after the kill")


def what_is_required_is_reached_or_refused(t):
    """With too few nodes a put with replicas_required leaves nothing; without, it says how many keep it."""
    cluster = Cluster(t, 2, *POOL)
    at_a, at_b = cluster.connect(timeout=60)
    error = expect_error(lambda: put(at_a, "required", replicas=3, replicas_required=True, timeout=1.5),
                         cenote.Unavailable)
    expect("2 of 3 nodes" in str(error), str(error))
    for store in (at_a, at_b):
        expect(not store.exists("required"), "it was refused, and is there")
    for size in (100, MIB):
        expect(put(at_a, f"as many/{size}", size, replicas=3) == 2, "two nodes keep it")
    expect_error(lambda: at_a.put("cache", b"x", replicas=2), cenote.BadArgument)
    c = Node(t, "c", *cluster.common(), *POOL).start()
    cluster.nodes.append(c)
    cluster.settle()
    until(lambda: cluster.sum("rebuilt") == 2 and rebuilt(cluster), lambda: f"{cluster.sum('rebuilt')} of 2 made up for")
    expect(put(at_a, "required", replicas=3, replicas_required=True) == 3, "three nodes keep it")
    lose(cluster[0])
    lose(cluster[1])
    at_c = c.connect(timeout=60)
    for size in (100, MIB):
        check(at_c.get(f"as many/{size}"), f"as many/{size}", 1, size)
    check(at_c.get("required"), "required", 1, MIB)


def a_copy_of_a_dead_keeper_is_claimed(t):
    """Objects of one keeper that others have read are not lost with it."""
    cluster = Cluster(t, 3, *POOL)
    a, b, c = cluster
    at_a, at_b, at_c = cluster.connect(timeout=60)
    keys = [f"k/{i}" for i in range(40)]
    for key in keys:
        expect(put(at_a, key, replicas=1) is None, "one keeper is nothing to tell of")
    for key in keys:
        check(at_b.get(key), key, 1, MIB)
        check(at_c.get(key), key, 1, MIB)
    lose(a)
    # Others want the room of what may be the last copies.
    for i in range(150):
        at_b.put(f"press/{i}", pattern("press", i, MIB), timeout=20)
    until(lambda: b.cluster("claimed") + c.cluster("claimed") >= len(keys),
          lambda: f"{b.cluster('claimed')} and {c.cluster('claimed')} of {len(keys)} were claimed")
    check_all((at_b, at_c), keys)
    a.start()
    cluster.settle()
    check_all((a.connect(timeout=60),), keys)
    t.note(f"b claimed {b.cluster('claimed')}, c {c.cluster('claimed')} of {len(keys)}")


def durable_on_each(t):
    """What is durable outlives the power of all its keepers; a node without a disk is none of them."""
    cluster = Cluster(t, 2, *POOL, disk=True)
    c = Node(t, "c", *cluster.common(), *POOL).start()
    cluster.nodes.append(c)
    cluster.settle()
    stores = cluster.connect(timeout=60)
    keys = [f"k/{i}" for i in range(20)]
    for key in keys:
        expect(put(stores[0], key, durable=True) == 2, f"{key} is on one disk alone")
    error = expect_error(lambda: put(stores[0], "three", replicas=3, durable=True, replicas_required=True, timeout=3),
                         cenote.NotSupported)
    expect("2 of 3 nodes" in str(error) and not stores[1].exists("three"), str(error))
    for node in cluster:
        node.kill()
    for node in cluster:
        node.wipe()
    cluster[1].start()  # the other's disk would do as well
    cluster.nodes = [cluster[1]]
    cluster.settle()
    check_all((cluster[0].connect(timeout=60),), keys)


def all_ways_to_put(t):
    """Each tells how many keep it."""
    cluster = Cluster(t, 2, *POOL)
    a, b = cluster
    store = a.connect(timeout=60)
    options = {"softpin": True, "replicas": 2}
    expect(store.put("small", b"x" * 100, **options) == 2, "put")
    expect(store.upsert("small", b"y" * 100, **options) == 2, "upsert")
    expect(store.put_parts("parts", [b"x" * 100000, b"y" * 100000], **options) == 2, "put_parts")
    with store.create("create", 100000, **options) as writer:
        writer[:] = b"z" * 100000
    expect(writer.keepers == 2, "create")
    writer = store.create("seal", 100, **options)
    expect(writer.seal() == 2, "seal")
    expect(store.put_batch(["batch/0", "batch/1"], [b"x" * 10, b"x" * MIB], **options) == [2, 2], "put_batch")
    said = subprocess.run([BUILD / "cenote", "put", "--socket", a.socket, "--softpin", "--replicas", "2", "--json", "tool"],
                          input=b"x" * 1000, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    expect(json.loads(said) == {"key": "tool", "size": 1000, "keepers": 2}, f"{said}")
    keys = [entry.key for entry in store.list()]
    expect(len(keys) == 7 and len(set(keys)) == 7, f"{keys}")
    expect(store.put_batch(["gone/0", "gone/1"], [b"x", b"y"], **options) == [2, 2], "put_batch")
    expect(store.remove_prefix("gone/") == 2, "each was counted for each of its keepers")
    lose(a)
    store = b.connect(timeout=60)
    for key in keys:
        store.get(key).release()


# ---- under load --------------------------------------------------------------

PERIOD_S = 20
DOWN_S = 5
RESIDENTS = 40  # objects of each node that outlive all kills


class Rebuild:
    """What these nodes rebuild from now on, and when they last did."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.before = self.all()
        self.count, self.size, self.at = 0, 0, None

    def all(self):
        return [sum(node.cluster(name) for node in self.nodes) for name in ("rebuilt", "rebuilt_bytes")]

    def look(self):
        now, size = (count - before for count, before in zip(self.all(), self.before))
        if now != self.count:
            self.count, self.size, self.at = now, size, time.monotonic()
        return rebuilt(self.nodes)


def one_kill(t, cluster, jobs, node):
    others = [n for n in cluster if n is not node]
    until(lambda: all(job.is_at_work() for job in jobs), "all their ranks are there")
    rebuild = Rebuild(others)
    seen = [len(n.events("peer_gone")) for n in others]
    began = time.monotonic()
    ranks = kill_node(node, jobs)
    until(lambda: all(len(n.events("peer_gone")) > count for n, count in zip(others, seen)), "it is gone")
    gone = time.monotonic()
    until(lambda: rebuild.look() and time.monotonic() - began > DOWN_S, "it is down for a while")
    node.start()
    cluster.settle()
    until(lambda: rebuild.look() and rebuilt([node]),
          lambda: f"not all is rebuilt: {[n.cluster('rebuild') for n in cluster]}")
    expect(rebuild.count > 0, "nothing was rebuilt")
    took = rebuild.at - gone
    t.note(f"{node.name} and {ranks} ranks killed: {rebuild.count} keepers of {rebuild.size / 1e6:.0f} MB rebuilt within "
           f"{took:.2f} s, {rebuild.count / took:.0f} keepers/s, {rebuild.size / took / 1e6:.0f} MB/s; the last "
           f"{rebuild.at - began:.1f} s after the kill")


def a_node_is_lost_again_and_again(t):
    """Under the main job over three nodes, one of them loses its daemon, its pool and its ranks every 20 s, and not
    before what the last one kept is rebuilt: no call of others fails, no object is lost, no byte is wrong. A job waits for its ranks; so that there is
    work while a node is down, there is one over each two of them as well."""
    t.takes(ROUNDS * PERIOD_S + 120)
    cluster = Cluster(t, 3, "--pool", "256M")
    keys = []
    for store in cluster.connect(timeout=60):
        for _ in range(RESIDENTS):
            keys.append(f"stays/{len(keys)}")
            put(store, keys[-1], MIB // 2)
    options = ("--replicas", "2", "--for", f"{ROUNDS * PERIOD_S + 10}s", "--live")
    a, b, c = cluster
    jobs = [Job(t, [a, b, c], *options, "35%")] + [Job(t, pair, *options, "5%", ranks=2) for pair in ([a, b], [b, c], [c, a])]
    spread = cluster.sum("spread")
    until(lambda: cluster.sum("spread") > spread + 200, "they are at work")
    began = time.monotonic()
    for number in range(ROUNDS):
        until(lambda: time.monotonic() - began >= number * PERIOD_S, "the next", PERIOD_S + 5)
        one_kill(t, cluster, jobs, cluster[number % 3])
    for job in jobs:
        said = job.end(2 * PERIOD_S + 60)
        expect(said["puts_by_keepers"][1] > 0, "nothing was kept by two")
        t.note(f"{job.name}: {said['restarted_ranks']} ranks went on, {said['gets_of_cut_puts']} gets made again; {said['steps_done']} steps, {said['puts']} puts, "
               f"{said['gets']} gets, {said['gb_per_s']:.2f} GB/s; {said['puts_by_keepers']} puts kept by one and two")
    stores = cluster.connect(timeout=60)
    check_all(stores, keys, MIB // 2)
    for key in keys:
        expect(stores[0].remove(key), f"{key} was not there")
    for node in cluster:
        until(lambda n=node: n.used() == 0, lambda: f"{node.name} uses {node.used()} bytes")
    t.note(f"{ROUNDS} kills; {len(keys)} objects that stay read on each node")


ROUNDS = rounds("CENOTE_REPLICAS_ROUNDS", 2)
main(a_lost_node_is_made_up_for, what_is_required_is_reached_or_refused, a_copy_of_a_dead_keeper_is_claimed,
     durable_on_each, all_ways_to_put, a_node_is_lost_again_and_again)
