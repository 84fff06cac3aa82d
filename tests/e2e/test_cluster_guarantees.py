#!/usr/bin/python3
"""What callers may rely on: one case for each cell of the table of `cenote doctor --guarantees`, named
after it, as host_reboot__softpin_one_keeper; each_cell_has_a_test compares the two.

A host's reboot is its processes killed and its pool unlinked. What no process can be made to do is
told by the simulator, build-debug/tests/sim/cluster/sim_cluster, whose coverage names it:

    power loss     "pool lost", "disk lost"; what was written and not flushed: tests/sim/sim,
                   "power lost", and tests/unit/test_tier_kill
    clock_jump     "wall clock jumped", in storms and calms, of one host by up to days

Others look longer: test_cluster_deaths.py under load, test_cluster_keep.py for full nodes, test_full_disk
and test_damage for the disk.
"""

import json
import os
import pathlib
import subprocess
import time

from cluster import Client, Cluster, Network, Node, Redis, Skip, cenote, check, expect, main, put, role, until
from cluster.node import expect_error, press
from cluster.programs import free_port

MIB = 1 << 20
COLUMNS = {
    "cache": {},
    "softpin_one_keeper": {"softpin": True},
    "softpin_replicas_2": {"softpin": True, "replicas": 2},
    "durable": {"softpin": True, "durable": True},
}

# Cells without a case, and why.
ELSEWHERE = {f"clock_jump__{column}": "the simulator, \"wall clock jumped\"" for column in COLUMNS}
ROWS = []


def row(function):
    ROWS.append(function)
    return function


# ---- what the cases share ----------------------------------------------------


def cluster_of(t, column, count=2, *options, disk=None):
    """Nodes that keep their addresses when they are started anew, as hosts do."""
    cluster = Cluster(t, 0)
    for name in "abc"[:count]:
        of_disk = ["--disk", str(t.directory / f"{name}-disk"), "--disk-size", "512M",
                   "--swapout-first", "disk"]
        node = Node(t, name, *cluster.common(), "--pool", "32M", "--peer-listen", f"127.0.0.1:{free_port()}",
                    *(of_disk if column == "durable" or disk else []), *options)
        cluster.nodes.append(node.start())
    cluster.settle()
    return cluster


def absent(store, key):
    expect_error(lambda: store.get(key), cenote.NotFound)


def put_one(store, column, key, size=MIB, version=1, **options):
    put(store, key, version, size, **COLUMNS[column], **options)


def each_reads(cluster, *keys, size=MIB):
    for node in cluster:
        for key in keys:
            check(node.connect().get(key), key, 1, size)


def reboot(cluster, *nodes):
    for node in nodes:
        node.kill()
        node.wipe()
    for node in nodes:
        node.start()
    cluster.settle()


def settled_error(store, key, *kinds):
    """The error of a get that says what became of the object, not that this is not known now."""
    def one():
        try:
            store.get(key).release()
        except cenote.Unavailable:
            return None
        except cenote.CenoteError as error:
            return error
        return AssertionError("it was found")
    error = until(one, f"what became of {key} is known", 20)
    expect(isinstance(error, kinds), f"{key}: {type(error).__name__}: {error}")
    return error


def put_until_full(store, column, prefix, most, **options):
    """Keys of 1 MiB that were acknowledged, until one was refused, or so many."""
    keys = []
    while len(keys) < most:
        key = f"{prefix}/{len(keys)}"
        try:
            put_one(store, column, key, timeout=1.5, **options)
        except (cenote.NoSpace, cenote.IoError) as error:
            return keys, error
        keys.append(key)
    return keys, None


# ---- processes die -----------------------------------------------------------


@role
def half_a_put(me, key, size, options):
    writer = me.store.create(key, size, **options)
    memoryview(writer)[:size // 2] = bytes(size // 2)
    me.say("half")
    me.hear()


@row
def producer_dies(t, column):
    cluster = cluster_of(t, column)
    a, b = cluster
    producer = Client(t, a, "half_a_put", "k", MIB, COLUMNS[column])
    producer.heard("half")
    expect(a.used() >= MIB, "it has no room yet")
    producer.kill()
    died = time.monotonic()
    until(lambda: a.used() == 0, "its space is back")
    took = time.monotonic() - died
    expect(took < 2, f"its space was back after {took:.1f} s")
    for store in cluster.connect():
        absent(store, "k")
    put_one(b.connect(), column, "k")
    each_reads(cluster, "k")


@role
def one_put(me, key, size, options):
    put(me.store, key, 1, size, **options)
    me.say("put")
    me.hear()


@row
def client_dies(t, column):
    cluster = cluster_of(t, column)
    a = cluster[0]
    gone = a.counter("gone")
    client = Client(t, a, "one_put", "k", MIB, COLUMNS[column])
    client.heard("put")
    client.kill()
    until(lambda: a.counter("gone") > gone, "its death is known")
    each_reads(cluster, "k")


@row
def daemon_killed(t, column):
    cluster = cluster_of(t, column)
    a = cluster[0]
    put_one(a.connect(), column, "k")
    a.restart()
    cluster.settle()
    each_reads(cluster, "k")
    a.stop()
    a.start()
    cluster.settle()
    each_reads(cluster, "k")


# ---- hosts die ---------------------------------------------------------------


@row
def host_reboot(t, column):
    cluster = cluster_of(t, column)
    a, b = cluster
    at_a, at_b = cluster.connect()
    node_id = a.cluster("node")
    for key in ("alone", "copied"):
        put_one(at_a, column, key)
    if column == "softpin_one_keeper":
        check(at_b.get("copied"), "copied", 1, MIB)
    reboot(cluster, *(cluster if column == "durable" else [a]))
    at_a, at_b = cluster.connect()
    if column == "cache":
        for store in (at_a, at_b):
            settled_error(store, "alone", cenote.NotFound)
    elif column == "softpin_one_keeper":
        for store in (at_b, at_a):
            error = settled_error(store, "alone", cenote.Lost)
            expect("generation" in str(error) and node_id in str(error), f"it does not say where: {error}")
            expect_error(lambda s=store: s.stat("alone"), cenote.Lost)
        each_reads(cluster, "copied")
        put_one(at_b, column, "alone", version=2)  # what is lost is in nobody's way
        check(at_a.get("alone"), "alone", 2, MIB)
    else:
        each_reads(cluster, "alone", "copied")


@row
def keeper_lost(t, column):
    cluster = cluster_of(t, column)
    a = cluster[0]
    at_b = cluster[1].connect()
    put_one(a.connect(), column, "k")
    a.kill()
    if column == "cache":
        settled_error(at_b, "k", cenote.NotFound)
        return
    if column == "softpin_replicas_2":
        check(until(lambda: at_b.get("k"), "it is read"), "k", 1, MIB)
        return
    for _ in range(2):
        began = time.monotonic()
        expect_error(lambda: at_b.get("k"), cenote.Unavailable)
        expect(time.monotonic() - began < 3, "a reader waited")
    if column == "durable":
        a.wipe()  # its disk alone comes back
    a.start()
    cluster.settle()
    each_reads(cluster, "k")


# ---- no room -----------------------------------------------------------------


def nodes_with_small_disks(t, count):
    """Their file systems are full before the limits of the disks are reached."""
    if not t.own_mounts:
        raise Skip("needs root, to mount a small tmpfs")
    cluster = Cluster(t, 0)
    for name in "ab"[:count]:
        path = t.path(f"{name}-fs")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", path], check=True)
        cluster.nodes.append(Node(t, name, *cluster.common(), "--pool", "32M", "--disk", str(path / "disk"), "--disk-size",
                                  "128M", "--disk-objects", "65536").start())
    cluster.settle()
    return cluster


@row
def disk_full(t, column):
    cluster = nodes_with_small_disks(t, 2 if column == "softpin_replicas_2" else 1)
    node = cluster[0]
    store = node.connect()
    keys, error = put_until_full(store, "softpin_one_keeper" if column == "cache" else column, "k", 150)
    expect(error is not None and len(keys) > 24, f"{len(keys)} were put: {error}")
    if column == "cache":
        inside = [key for key in keys if not store.stat(key).on_disk][:8]
        for key in inside:
            store.remove(key)
        for i in range(60):
            put_one(store, column, f"cache/{i}")
            check(store.get(f"cache/{i}"), f"cache/{i}", 1, MIB)
        absent(store, "cache/0")
        keys = [key for key in keys if key not in inside]
    for key in keys:
        check(store.get(key), key, 1, MIB)
    node.kill()
    if column == "durable":
        node.wipe()
    node.start()
    cluster.settle()
    store = node.connect()
    for key in keys:
        check(store.get(key), key, 1, MIB)
    t.note(f"{len(keys)} MiB in a pool of 32 and a file system of 64, then {type(error).__name__}")


@row
def pool_full(t, column):
    cluster = cluster_of(t, column)
    at_a, at_b = cluster.connect()
    keys, error = put_until_full(at_a, column, "k", 90)
    if column == "cache":
        expect(error is None, f"{error}")
        check(at_b.get(keys[-1]), keys[-1], 1, MIB)
        absent(at_a, keys[0])
        return
    if column == "durable":
        expect(error is None, f"{error}")
    else:
        expect(isinstance(error, cenote.NoSpace) and len(keys) > (48 if column == "softpin_one_keeper" else 24),
               f"{len(keys)} were put: {error}")
    for key in keys:
        check(at_a.get(key), key, 1, MIB)
        check(at_b.get(key), key, 1, MIB)
    t.note(f"{len(keys)} MiB in two pools of 32" + (f", then {type(error).__name__}" if error else ""))


# ---- wrong bytes -------------------------------------------------------------


def spoil(disk):
    """One byte of each block of the data file, behind its header."""
    with open(pathlib.Path(disk) / "objects", "r+b", buffering=0) as file:
        number, at = file.fileno(), 4096
        while True:
            try:
                at = os.lseek(number, at, os.SEEK_DATA)
            except OSError:
                return  # there is no more
            byte = os.pread(number, 1, at + 77)
            os.pwrite(number, bytes([byte[0] ^ 0xff]), at + 77)
            at += 4096


def on_disk_alone(node, store, column, size):
    """The key of an object that is; one of the cache goes there if it was hit between several looks at
    what might leave."""
    if column != "cache":
        put_one(store, column, "k", size)
        press(node, store, ["k"], size)
        return "k"
    hot = [f"hot/{i}" for i in range(80)]
    for key in hot:
        put_one(store, column, key, size)
    for i in range(500):
        put_one(store, column, f"filler/{i}", size)
        for one in store.get_batch(hot) if i < 250 else ():
            if not isinstance(one, cenote.NotFound):
                one.release()
    for i in range(500):
        for key, stat in zip(hot, store.stat_batch(hot)):
            if not isinstance(stat, cenote.NotFound) and stat.on_disk and not stat.in_pool:
                return key
        put_one(store, "softpin_one_keeper", f"press/{i}", size)
    raise AssertionError("no cache object went to the disk")


@row
def bit_rot(t, column):
    cluster = cluster_of(t, column, disk=True)
    at_a, at_b = cluster.connect()
    size = 256 << 10
    key = on_disk_alone(cluster[0], at_a, column, size)
    spoil(t.directory / "a-disk")
    for store in (at_a, at_b):
        if column == "softpin_replicas_2":
            check(store.get(key), key, 1, size)
        else:
            settled_error(store, key, cenote.NotFound if column == "cache" else cenote.Corrupt)
    if column == "softpin_replicas_2":
        until(lambda: cluster[1].stats()["cluster"]["rebuilt"] == 1, "a second node keeps it again")
    else:
        put_one(at_a, column, key, size)
    each_reads(cluster, key, size=size)


# ---- the network, the directory ----------------------------------------------


@row
def partition(t, column):
    network = Network(t)
    redis = Redis(t, address=network.hub.address, host=network.hub)
    cluster = Cluster(t, 2, directory=redis, hosts=[network.host(name) for name in "ab"], disk=column == "durable")
    a, b = cluster
    at_a, at_b = cluster.connect()
    for key in ("kept", "copied"):
        put_one(at_a, column, key)
    check(at_b.get("copied"), "copied", 1, MIB)
    network.cut(a.host, b.host)
    check(at_a.get("kept"), "kept", 1, MIB)
    check(at_b.get("copied"), "copied", 1, MIB)
    if column == "softpin_replicas_2":
        check(at_b.get("kept"), "kept", 1, MIB)
    else:
        began = time.monotonic()
        expect_error(lambda: at_b.get("kept"), cenote.Unavailable)
        took = time.monotonic() - began
        expect(took < 3, f"a reader waited for {took:.1f} s")
    network.heal()
    cluster.settle()
    each_reads(cluster, "kept", "copied")


@row
def directory_away(t, column):
    cluster = cluster_of(t, column)
    at_a, at_b = cluster.connect()
    for key in ("hit", "load", "removed"):
        put_one(at_a, column, key)
    check(at_b.get("removed"), "removed", 1, MIB)
    cluster.directory.kill()
    check(at_a.get("hit"), "hit", 1, MIB)
    check(at_b.get("load"), "load", 1, MIB)
    expect(at_b.remove("removed"), "removed")
    for store in (at_a, at_b):
        expect_error(lambda s=store: s.get("removed", timeout=1), cenote.NotFound, cenote.Unavailable, cenote.Timeout)
    began = time.monotonic()
    expect_error(lambda: put_one(at_a, column, "put", timeout=1), cenote.Unavailable)
    expect(0.5 < time.monotonic() - began < 5, "the put did not wait until its deadline")
    cluster.directory.start()
    cluster.settle()
    put_one(at_a, column, "put")
    each_reads(cluster, "hit", "load", "put")
    absent(at_a, "removed")


@row
def remove_during_read(t, column):
    cluster = cluster_of(t, column)
    stores = cluster.connect()
    put_one(stores[0], column, "k")
    held = [store.get("k") for store in stores]
    expect(stores[1].remove("k"), "removed")
    for store in stores:
        absent(store, "k")
    put_one(stores[0], column, "k", version=2)
    for buffer in held:
        check(buffer, "k", 1, MIB)
    for store in stores:
        check(store.get("k"), "k", 2, MIB)


# ---- the table ---------------------------------------------------------------


def cell(function, column):
    def case(t):
        function(t, column)
    case.__name__ = f"{function.__name__}__{column}"
    return case


CELLS = [cell(function, column) for function in ROWS for column in COLUMNS]


def doctor(node, *options):
    done = subprocess.run([node.build / "cenote", "doctor", "--socket", node.socket, *options], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def guarantees(node):
    """{cell: text}, as the node says."""
    status, text = doctor(node, "--guarantees", "--json")
    expect(status == 0, f"cenote doctor: {text}")
    rows = json.loads(text)["guarantees"]
    expect(all(set(one) == {"failure", "title", *COLUMNS} for one in rows), f"other columns: {text}")
    return {f"{one['failure']}__{column}": one[column] for one in rows for column in COLUMNS}


def each_cell_has_a_test(t):
    """Or the reason why not; and what the node says is of its own disk and peers."""
    cluster = cluster_of(t, "cache")
    a, b = cluster
    alone = Node(t, "alone", "--disk", str(t.directory / "alone-disk")).start()
    said = guarantees(a)
    cases = {case.__name__ for case in CELLS}
    expect(not cases & set(ELSEWHERE), f"twice: {cases & set(ELSEWHERE)}")
    expect(cases | set(ELSEWHERE) == set(said), f"the table and the tests: {(cases | set(ELSEWHERE)) ^ set(said)}")
    expect(all(said.values()), "a cell is empty")
    expect("NOT_SUPPORTED" in said["client_dies__durable"], "a node without a disk says that it has durable objects")
    expect("LOST" in said["host_reboot__softpin_one_keeper"] and "peer" in said["pool_full__softpin_one_keeper"],
           f"{said}")
    said = guarantees(alone)
    expect(said["client_dies__softpin_replicas_2"].startswith("alone: as one keeper; NOT_SUPPORTED if required") and
           said["client_dies__durable"] == "kept" and
           "NOT_FOUND" in said["host_reboot__softpin_one_keeper"] and
           "disk" in said["pool_full__softpin_one_keeper"], f"{said}")
    for node in (a, alone):
        status, text = doctor(node, "--guarantees")
        expect(status == 0 and max(len(line) for line in text.splitlines()) <= 120, f"exit {status}\n{text}")
        expect(not any(line.endswith(" ") for line in text.splitlines()), "lines end with spaces")
        status, text = doctor(node)
        expect(status == 0 and text.splitlines()[-1] == "well", f"exit {status}: {text}")
    # It is not well while another does not answer, and once that is gone it says so.
    b.suspend()
    until(lambda: doctor(a)[0] == 1, "a node that does not answer is told")
    until(lambda: "1 are gone" in doctor(a)[1], "and that it is gone")
    b.resume()
    cluster.settle()
    expect(doctor(a)[0] == 0, "it is well again")
    cluster.directory.kill()
    until(lambda: doctor(a)[0] == 1 and "cannot be reached" in doctor(a)[1], "the directory is away")
    cluster.directory.start()
    b.stop()
    expect("no other node is up" in guarantees(a)["client_dies__softpin_replicas_2"], "of a node that has left")
    alone.kill()
    status, text = doctor(alone)
    expect(status == 1 and "cenote: " in text, f"exit {status}: {text}")


def replicas_on_a_node_that_is_alone(t):
    """Are kept as an object with one keeper, and refused if they are required."""
    node = Node(t, "alone", "--pool", "32M").start()
    said = guarantees(node)["client_dies__softpin_replicas_2"]
    expect(said == "alone: as one keeper; NOT_SUPPORTED if required", said)
    store = node.connect()
    keepers = store.put("k", bytes(MIB), **COLUMNS["softpin_replicas_2"])
    expect(keepers == 1, f"{keepers} keep it")
    expect_error(lambda: store.put("none", bytes(MIB), replicas_required=True, **COLUMNS["softpin_replicas_2"]),
                 cenote.NotSupported)
    absent(store, "none")
    node.restart()
    expect(bytes(node.connect().get("k")) == bytes(MIB), "it is kept")


main(each_cell_has_a_test, replicas_on_a_node_that_is_alone, *CELLS)
