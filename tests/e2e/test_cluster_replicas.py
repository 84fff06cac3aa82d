#!/usr/bin/python3
"""What several nodes keep: it outlives each but the last of them, and gets others in their place.

`--rounds N` or $CENOTE_REPLICAS_ROUNDS: how often a node is killed and emptied under load (2).
"""

import json
import os
import random
import subprocess
import sys
import time

from cluster import BUILD, Client, Cluster, Failure, Node, cenote, check, expect, main, pattern, role, until
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

KEYS = 40  # that each client has at a time
PERIOD_S = 20
DOWN_S = 5
CALL_S = 10


class Ledger:
    """What one client has put and removed, in a file that outlives it."""

    def __init__(self, path):
        self.path = path
        self.there, self.ending, self.at = {}, set(), 0

    def add(self, *line):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def read(self):
        if not os.path.exists(self.path):
            return self
        with open(self.path, encoding="utf-8") as file:
            file.seek(self.at)
            text = file.read()
        text = text[:text.rfind("\n") + 1]
        self.at += len(text.encode())
        for line in text.splitlines():
            what, key, size = json.loads(line)
            if what == "put":
                self.there[key] = size
            else:
                self.ending.add(key)
        return self

    def kept(self):
        return {key: size for key, size in self.there.items() if key not in self.ending}


@role
def worker(me, number, life, ledgers):
    dice = random.Random(f"{number}/{life}")
    books = [Ledger(path) for path in ledgers]
    serial, puts, gets = 0, 0, 0

    def one_put():
        nonlocal serial
        serial += 1
        key, size = f"{number}/{life}/{serial}", dice.randrange(1, MIB // 2)
        try:
            me.store.put(key, pattern(key, 1, size), softpin=True, replicas=2, timeout=CALL_S)
        except (cenote.Unavailable, cenote.Timeout):
            return 0  # nothing was acknowledged
        books[number].add("put", key, size)
        return 1

    def one_get():
        book = dice.choice(books).read()
        keys = list(book.kept().items())
        if not keys:
            return 0
        key, size = dice.choice(keys)
        try:
            check(me.store.get(key, timeout=CALL_S), key, 1, size)
        except cenote.CenoteError as error:
            if key in book.read().kept():
                raise Failure(f"{key}: {type(error).__name__}: {error}") from error
        return 1

    def one_remove():
        keys = list(books[number].read().kept())
        if len(keys) <= KEYS:
            return
        books[number].add("end", keys[0], 0)
        try:
            me.store.remove(keys[0])
        except cenote.CenoteError:
            pass  # it is removed, or will be: nobody asks for it any more

    while not me.was_told():
        puts += one_put()
        gets += sum(one_get() for _ in range(3))
        one_remove()
    me.say({"puts": puts, "gets": gets})


class Load:
    """Two clients on each node."""

    def __init__(self, t, cluster):
        self.t, self.cluster, self.life = t, cluster, 0
        directory = t.path("ledgers")
        self.paths = [str(directory / str(i)) for i in range(2 * len(cluster))]
        self.clients = {}
        for node in range(len(cluster)):
            self.start(node)

    def start(self, node):
        self.life += 1
        for number in (2 * node, 2 * node + 1):
            self.clients[number] = Client(self.t, self.cluster[node], "worker", number, self.life, self.paths)

    def kill(self, node):
        for number in (2 * node, 2 * node + 1):
            self.clients.pop(number).process.kill()

    def look(self):
        for client in self.clients.values():
            expect(client.process.lives(), f"{client.name} has ended")

    def end(self):
        for client in self.clients.values():
            client.say("end")
        said = [client.hear() for client in self.clients.values()]
        for client in self.clients.values():
            client.end()
        return sum(s["puts"] for s in said), sum(s["gets"] for s in said)

    def kept(self):
        return {key: size for path in self.paths for key, size in Ledger(path).read().kept().items()}


def one_kill(t, cluster, load, which):
    node, others = cluster[which], [n for n in cluster if n is not cluster[which]]
    before, count = [n.cluster("rebuilt") for n in others], len(load.kept())
    began = time.monotonic()
    load.kill(which)
    lose(node)
    until(lambda: any(n.events("peer_gone") for n in others), "it is gone")
    until(lambda: time.monotonic() - began > DOWN_S, "it is down for a while", DOWN_S + 5)
    node.start()
    load.start(which)
    cluster.settle()
    until(lambda: rebuilt(cluster), lambda: f"not all is rebuilt: {[n.cluster('rebuild') for n in cluster]}")
    took = time.monotonic() - began
    load.look()
    done = sum(n.cluster("rebuilt") for n in others) - sum(before)
    expect(done > 0, "nothing was rebuilt")
    t.note(f"{node.name} lost with {count} objects there: {done} keepers rebuilt, all {took:.1f} s after the kill")
    expect(took < PERIOD_S, f"rebuilt {took:.1f} s after the kill, and the next comes after {PERIOD_S} s")
    return began


def a_node_is_lost_again_and_again(t):
    """Under load, one of three nodes loses its pool every 20 s: no object is lost, no byte is wrong."""
    t.takes(ROUNDS * PERIOD_S + 60)
    cluster = Cluster(t, 3, "--pool", "256M")
    load = Load(t, cluster)
    until(lambda: len(load.kept()) > 3 * KEYS, "there are objects")
    for number in range(ROUNDS):
        began = one_kill(t, cluster, load, number % 3)
        until(lambda: time.monotonic() - began > PERIOD_S or number + 1 == ROUNDS, "the next", PERIOD_S)
    puts, gets = load.end()
    keys = load.kept()
    for store in cluster.connect(timeout=60):
        for key, size in keys.items():
            check(store.get(key), key, 1, size)
    t.note(f"{ROUNDS} kills, {puts} puts and {gets} gets by the last clients, {len(keys)} objects read on each node")


def rounds():
    for i, word in enumerate(sys.argv):
        if word == "--rounds":
            count = int(sys.argv[i + 1])
            del sys.argv[i:i + 2]
            return count
    return int(os.environ.get("CENOTE_REPLICAS_ROUNDS", "2"))


ROUNDS = 0 if "--role" in sys.argv else rounds()
main(a_lost_node_is_made_up_for, what_is_required_is_reached_or_refused, a_copy_of_a_dead_keeper_is_claimed,
     durable_on_each, all_ways_to_put, a_node_is_lost_again_and_again)
