#!/usr/bin/python3
"""What may die or break, does, under the load of a station (cluster/station.py) over three nodes:
a daemon, the directory, one master of it, a link. Outcomes are those of the table of faults:

- no wrong byte; a softpin object on a living node that can be reached is never NOT_FOUND, nor
  is any that was not removed;
- LOST, UNAVAILABLE, TIMEOUT, LEASE_EXPIRED, TRANSFER_FAIL only where the fault explains them,
  and no later than the call's deadline;
- 2 s after the fault the survivors put and read as before: p99, by a generous ratio;
- in the end every object was read by all who wanted it, and removed, and is found nowhere.

Each case prints its figures.
"""

import time

from cluster import Cluster, Network, Redis, RedisCluster, cenote, check, expect, main, put, role, until
from cluster.client import Client
from cluster.node import expect_error
from cluster.station import Station, judge, leave_nothing, percentile, tell

BEFORE = 300  # objects put and read on the survivors before the fault, and after
AFTER_S = 2  # after the fault all must be as before
RATIO, NOISE_S = 5, 0.020
HEALED_S = 8  # after its end a fault explains nothing more: GONE, and the longest pause to connect
WARM_UP = 100
AWAY_S = 3  # a call of the directory takes so long if nobody answers (dir/dir_redis.h)
RESIDENTS = 60  # objects of each node that stay
SWEPT = 400  # the same, that are read during a flush
GONE = 40  # objects that are removed, and must stay so


def measure(t, station, nodes, since, fault, at=None):
    """What the fault did to the survivors; `at`: when it was over, of one that is for all. One burst
    of work elsewhere on the machine may spoil 300 objects, but not 1,500."""
    before = station.samples(nodes, since, fault)
    was = percentile(before, 99)
    for count in (BEFORE, 2 * BEFORE, 5 * BEFORE):
        after = station.await_samples(count, nodes, (at or fault) + AFTER_S)
        now = percentile(after, 99)
        if now < RATIO * was + NOISE_S:
            break
    t.note(f"put and get on {' and '.join(nodes)}: p99 {was * 1000:.1f} ms before ({len(before)} objects), "
           f"{now * 1000:.1f} ms from {AFTER_S} s after ({len(after)}); p50 {percentile(before, 50) * 1000:.1f} and "
           f"{percentile(after, 50) * 1000:.1f}")
    expect(now < RATIO * was + NOISE_S, f"p99 was {was * 1000:.1f} ms and is {now * 1000:.1f}")


def warm(station, nodes):
    """The moment from which on the load is as it stays."""
    station.await_samples(WARM_UP, nodes, 0)
    since = time.monotonic()
    station.await_samples(BEFORE, nodes, since)
    return since


def over(t, station, cluster, at, explains, back=None):
    """The end of a case: all that was put is read and removed, and nothing is left."""
    records = station.drain()
    tell(t, records, at)
    judge(records, explains, back)
    for name in cluster.residents:
        for number in range(RESIDENTS):
            expect(cluster.stores["bca"["abc".index(name)]].remove(f"r/{name}/{number}"), f"r/{name}/{number} is lost")
    leave_nothing(t, cluster)


def settle_in(cluster):
    """Objects that outlive the fault: so many on each node, which nobody has read yet."""
    cluster.stores = {node.name: node.connect() for node in cluster}
    cluster.residents = [node.name for node in cluster]
    for name, store in cluster.stores.items():
        for number in range(RESIDENTS):
            put(store, f"r/{name}/{number}", 1, 1000 * number, softpin=True)


def read_residents(cluster, reader, keeper, part=range(RESIDENTS)):
    for number in part:
        check(cluster.stores[reader].get(f"r/{keeper}/{number}"), f"r/{keeper}/{number}", 1, 1000 * number)


def absent(store, key):
    try:
        store.get(key).release()
    except cenote.NotFound:
        return
    expect(False, f"{key}, which was removed, is back")


def a_node_is_killed_and_comes_back(t):
    cluster = Cluster(t)
    settle_in(cluster)
    a = cluster[0]
    station = Station(t, cluster)
    since = warm(station, "bc")
    at = time.monotonic()
    a.kill()
    read_residents(cluster, "b", "c")
    measure(t, station, "bc", since, at)
    a.start()
    cluster.settle()
    back = time.monotonic()
    expect(a.stats()["start"]["adopted"] >= RESIDENTS, f"it has adopted only {a.stats()['start']['adopted']}")
    read_residents(cluster, "b", "a")
    read_residents(cluster, "c", "a")
    station.await_samples(BEFORE, "abc", back)
    def during(r):
        return at < r.over and r.at < back + HEALED_S
    # Who asks the dead node, or for what it keeps, and nobody else. A call that began before
    # its end may have met it. Its own clients may hit what was removed until it is told.
    over(t, station, cluster, at, lambda r: "a" in (r.node, r.keeper) and during(r),
         back=lambda r: during(r) and r.node == "a")


def redis_is_killed_and_comes_back_empty(t):
    redis = Redis(t)
    cluster = Cluster(t, directory=redis)
    settle_in(cluster)
    station = Station(t, cluster)
    since = warm(station, "abc")
    down = time.monotonic()
    redis.kill()
    # Reads and removals go on without it.
    read_residents(cluster, "b", "a")
    t.note(f"{RESIDENTS} objects of another node read without it in {time.monotonic() - down:.1f} s")
    for number in range(GONE):
        expect(cluster.stores["c"].remove(f"r/a/{number}"), f"r/a/{number} was not there")
    took = time.monotonic() - down
    t.note(f"and {GONE} removed, in {took:.1f} s altogether")
    expect(took < AWAY_S * (RESIDENTS + GONE) / 4, "each of them waited for it")
    for store in cluster.stores.values():
        # That there is nothing nobody can say for sure, without it.
        expect_error(lambda: store.get("r/a/0", timeout=1), cenote.NotFound, cenote.Timeout, cenote.Unavailable)
    until(lambda: any(r.what == "put" and r.end == "Unavailable" for r in station.read()), "a put that is told")
    redis.start()
    at = time.monotonic()
    measure(t, station, "abc", since, down, at)
    read_residents(cluster, "c", "a", range(GONE, RESIDENTS))
    read_residents(cluster, "a", "b")
    for store in cluster.stores.values():
        for number in range(GONE):
            absent(store, f"r/a/{number}")
    for number in range(GONE):
        put(cluster.stores["a"], f"r/a/{number}", 1, 1000 * number, softpin=True)
    # Only puts wait for it, and who asks for what is nowhere.
    over(t, station, cluster, down,
         lambda r: r.what in ("put", "gone", "done") and down < r.over and r.at < at + HEALED_S)


def a_master_of_the_redis_cluster_is_killed(t):
    redis = RedisCluster(t, replicas=1)
    cluster = Cluster(t, directory=redis)
    settle_in(cluster)
    station = Station(t, cluster)
    since = warm(station, "abc")
    down = time.monotonic()
    dead = redis.master()
    dead.kill()
    read_residents(cluster, "b", "a")
    t.note(f"{RESIDENTS} objects of another node read without it in {time.monotonic() - down:.1f} s")
    until(lambda: all(redis.is_well(s) for s in redis.servers if s is not dead) and len(redis.roles("master")) == 3,
          "a replica has taken its place")
    at = time.monotonic()
    t.note(f"the place of {dead.name} was taken after {at - down:.1f} s")
    measure(t, station, "abc", since, down, at)
    read_residents(cluster, "c", "b")
    over(t, station, cluster, down, lambda r: r.what == "put" and down < r.over and r.at < at + HEALED_S)


def on_hosts(t):
    """A cluster each of whose nodes has its own host, and its Redis on the hub."""
    network = Network(t)
    redis = Redis(t, address=network.hub.address, host=network.hub)
    return network, Cluster(t, 3, directory=redis, hosts=[network.host(name) for name in "abc"])


def the_link_of_a_and_b(t, cut):
    """a and b do not hear each other, or one not the other; c and the directory hear both. What a
    keeps b cannot read, unless c has it; what it removes, a may still have until it is told."""
    network, cluster = on_hosts(t)
    settle_in(cluster)
    a, b = cluster[0], cluster[1]
    station = Station(t, cluster)
    since = warm(station, "ac")
    at = time.monotonic()
    cut(network, a.host, b.host)
    for reader, keeper in ("ca", "cb", "ac", "bc", "aa", "bb"):
        read_residents(cluster, reader, keeper)
    measure(t, station, "ac", since, at)
    measure(t, station, "bc", since, at)
    network.heal()
    cluster.settle()
    back = time.monotonic()
    for reader, keeper in ("ab", "ba"):
        read_residents(cluster, reader, keeper)
    station.await_samples(BEFORE, "ab", back)

    def during(r):
        return at < r.over and r.at < back + HEALED_S
    over(t, station, cluster, at, lambda r: during(r) and {r.node, r.keeper} == {"a", "b"},
         back=lambda r: during(r) and r.node in "ab")


def a_link_is_cut_both_ways(t):
    the_link_of_a_and_b(t, lambda network, a, b: network.cut(a, b))


def a_link_is_cut_one_way(t):
    the_link_of_a_and_b(t, lambda network, a, b: network.cut_one_way(a, b))


def a_node_is_cut_off(t):
    """From the others and from the directory: it serves its own, what it keeps; its puts wait."""
    network, cluster = on_hosts(t)
    settle_in(cluster)
    a, b, c = cluster
    station = Station(t, cluster)
    since = warm(station, "bc")
    at = time.monotonic()
    for other in (b.host, c.host, network.hub):
        network.cut_one_way(other, a.host)
        if other is not network.hub:
            network.cut_one_way(a.host, other)
    for reader, keeper in ("aa", "bc", "cb"):
        read_residents(cluster, reader, keeper)
    measure(t, station, "bc", since, at)
    network.heal()
    cluster.settle()
    back = time.monotonic()
    for reader, keeper in ("ab", "ac", "ba", "ca"):
        read_residents(cluster, reader, keeper)
    station.await_samples(BEFORE, "abc", back)

    def during(r):
        return at < r.over and r.at < back + HEALED_S
    over(t, station, cluster, at, lambda r: during(r) and "a" in (r.node, r.keeper),
         back=lambda r: during(r) and "a" in (r.node, r.remover))


def is_found(store, key):
    try:
        store.get(key, timeout=0.05).release()
    except (cenote.NotFound, cenote.Unavailable, cenote.Timeout):
        return False
    return True


def a_node_loses_the_directory(t):
    """And nothing else: it reads on, and what others remove it does not find any more, nor does
    anybody when it is back, though the directory has forgotten all. Its puts are told in time."""
    network, cluster = on_hosts(t)
    settle_in(cluster)
    b, stores = cluster[1], cluster.stores
    station = Station(t, cluster)
    since = warm(station, "ac")
    at = time.monotonic()
    network.cut_one_way(network.hub, b.host)
    until(lambda: not b.directory_is_complete(), "b has lost the directory")
    for number in range(GONE):
        key, owner, remover = f"x/{number}", *(("a", "c") if number % 2 else ("c", "a"))
        put(stores[owner], key, 1, 1000, softpin=True)
        for store in stores.values():
            check(store.get(key), key, 1, 1000)
        expect(stores[remover].remove(key), f"{key} was not there")
        for name, store in stores.items():
            expect(not is_found(store, key), f"{key}, which {remover} has removed, is found on {name}")
    for replace in (False, True):
        expect_error(lambda r=replace: put(stores["b"], "x", 1, 1000, replace=r, timeout=2), cenote.Unavailable)
    read_residents(cluster, "b", "a")
    measure(t, station, "ac", since, at)
    cluster.directory.ask("FLUSHALL")
    network.heal()
    cluster.settle()
    back = time.monotonic()
    for store in stores.values():
        for number in range(GONE):
            absent(store, f"x/{number}")
    station.await_samples(BEFORE, "abc", back)
    over(t, station, cluster, at, lambda r: at < r.over and r.at < back + HEALED_S and "b" in (r.node, r.keeper))


# ---- the directory forgets ---------------------------------------------------

@role
def sweeper(me, owners, count):
    """Get each object of these nodes once, told in pieces."""
    for number in range(count):
        for owner in owners:
            key = f"s/{owner}/{number}"
            check(me.store.get(key), key, 1, 1000 + number)
        if number % 20 == 0:
            me.say(number)
    me.say("done")


def flushall_in_the_middle(t):
    """While every node gets, once each, what the others keep: all is found at any time, and nothing
    that was removed."""
    cluster = Cluster(t)
    settle_in(cluster)
    stores = cluster.stores
    for name, store in stores.items():
        for number in range(SWEPT):
            put(store, f"s/{name}/{number}", 1, 1000 + number, softpin=True)
        for number in range(GONE):
            put(store, f"x/{name}/{number}", 1, 100, softpin=True)
    for number in range(GONE):  # removed by another node than the one that keeps it
        for name, remover in zip("abc", "bca"):
            expect(stores[remover].remove(f"x/{name}/{number}"), "what was put is there")
    station = Station(t, cluster)
    since = warm(station, "abc")
    sweepers = [Client(t, node, "sweeper", [n for n in "abc" if n != node.name], SWEPT) for node in cluster]
    for part in (0.2, 0.6):
        for one in sweepers:
            while (said := one.hear()) != "done" and said < part * SWEPT:
                pass
        at = time.monotonic()
        cluster.directory.ask("FLUSHALL")
        for number in range(GONE):
            for store, owner in zip(stores.values(), "cab"):
                absent(store, f"x/{owner}/{number}")
    for one in sweepers:
        one.process.wait()  # it has compared all
        expect(one.process.wait() == 0, f"{one.name} ended with {one.process.wait()}")
    measure(t, station, "abc", since, at)
    for store in stores.values():
        for owner in stores:
            for number in range(GONE):
                absent(store, f"x/{owner}/{number}")
    for owner, other in zip("abc", "bca"):
        for number in range(SWEPT):
            expect(stores[other].remove(f"s/{owner}/{number}"), f"s/{owner}/{number} is lost")
    over(t, station, cluster, at, lambda r: False)


main(a_node_is_killed_and_comes_back, redis_is_killed_and_comes_back_empty, a_master_of_the_redis_cluster_is_killed,
     a_link_is_cut_both_ways, a_link_is_cut_one_way, a_node_is_cut_off, a_node_loses_the_directory,
     flushall_in_the_middle)
