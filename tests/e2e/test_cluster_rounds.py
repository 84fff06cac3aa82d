#!/usr/bin/python3
"""put -> get elsewhere -> remove, round after round, over three nodes (field case K2-11).

What a put has acknowledged is read at once from every other node, byte by byte; what a remove
has acknowledged is found nowhere. Sizes are 1 B to 8 MiB, log-uniform; keys come again, with
other bytes. Several processes at once, each attached to all nodes.

`--rounds N` or $CENOTE_CLUSTER_ROUNDS asks for more than the 2,000 of each directory.
"""

import math
import random
import time

from cluster import (Client, Cluster, Failure, Redis, RedisCluster, cenote, check, expect, main, put, role, rounds,
                     until)

LARGEST = 8 << 20
WORKERS = 4
KEYS = 16  # of each worker: they come again and again
REPORT_S = 20
ROUND_S = 0.1  # on a slow machine


def a_size(dice):
    """The logarithm is uniform; both ends are there."""
    return min(int(math.exp(dice.uniform(0, math.log(LARGEST + 1)))), LARGEST)


def must_be_absent(store, key):
    try:
        store.get(key).release()
    except cenote.NotFound:
        return
    raise Failure(f"{key} was removed, and {store.socket} has it")


def one_round(me, dice, key, version):
    """The bytes that it moved."""
    size = a_size(dice)
    order = dice.sample(me.stores, len(me.stores))
    writer, readers, remover = order[0], order[1:], dice.choice(order)
    kind = dice.random()
    put(writer, key, version, size, softpin=kind < 0.7)
    for reader in readers:
        if kind < 0.3:
            data = bytearray(size)
            expect(reader.get_into(key, data) == size, f"{key}: the size is wrong")
            check(data, key, version, size)
        else:
            check(reader.get(key), key, version, size)
    if kind > 0.9:  # in its place, another; then every node has that one
        size = a_size(dice)
        put(remover, key, version + 0.5, size, replace=True)
        for store in order:
            check(store.get(key), key, version + 0.5, size)
    expect(remover.remove(key), f"{key} was not there to be removed")
    for store in dice.sample(order, len(order)):
        must_be_absent(store, key)
    return size


@role
def worker(me, number, count):
    dice = random.Random(number)
    moved, told = 0, time.monotonic()
    for done in range(count):
        key = f"w{number}/{dice.randrange(KEYS)}"
        moved += one_round(me, dice, key, done)
        if time.monotonic() - told > REPORT_S:
            told = time.monotonic()
            me.say({"done": done + 1})
    me.say({"done": count, "moved": moved})


def run_rounds(t, directory, count):
    t.takes(count * ROUND_S)
    cluster = Cluster(t, 3, "--pool", "256M", directory=directory)
    began = time.monotonic()
    share = -(-count // WORKERS)
    workers = [Client(t, list(cluster), "worker", i, share) for i in range(WORKERS)]
    done, moved, told = [0] * WORKERS, 0, began
    while min(done) < share:
        busy = [i for i in range(WORKERS) if done[i] < share]
        until(lambda: any(workers[i].has_said() for i in busy), "a worker comes on", REPORT_S * 6)
        for i in busy:
            if workers[i].has_said():
                said = workers[i].hear()
                done[i], moved = said["done"], moved + said.get("moved", 0)
        if time.monotonic() - told > REPORT_S:
            told = time.monotonic()
            t.note(f"{sum(done)} of {share * WORKERS} rounds in {told - began:.0f} s")
    for one in workers:
        one.end()
    took = time.monotonic() - began
    t.note(f"{share * WORKERS} rounds in {took:.1f} s, {moved / took / 1e6:.0f} MB/s put, seeds 0 to {WORKERS - 1}")
    for node in cluster:
        until(lambda: node.stats()["pool"]["objects"] == 0, f"{node.name} is empty")


def rounds_over_a_redis(t):
    run_rounds(t, Redis(t), ROUNDS)


def rounds_over_a_redis_cluster(t):
    run_rounds(t, RedisCluster(t), ROUNDS)


ROUNDS = rounds("CENOTE_CLUSTER_ROUNDS", 2000)
main(rounds_over_a_redis, rounds_over_a_redis_cluster)
