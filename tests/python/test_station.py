"""A transfer station: producers put what consumers wait for, and it goes when it was read.

More passes through than the pool holds. Nobody polls: the daemon counts its messages, of which
there is a fixed number for each object, and next to none while all that is to do is to wait.
"""

import multiprocessing
import time

import cenote
import numpy
import pytest
from conftest import counter, stats, until, used

RANKS = 8
STEPS = 25
BYTES = 512 << 10  # an object; in all 1.6 times the pool of 64 MiB


def rows(rank, step):
    """An array of which each element says whose it is."""
    seed = rank * STEPS + step
    return numpy.arange(seed, seed + BYTES // 8, dtype=numpy.int64)


def produce(socket, rank):
    with cenote.connect(socket) as store:
        for step in range(STEPS):
            store.put(f"step/{step}/{rank}", rows(rank, step), softpin=True, readers=1, timeout=60)


def consume(socket, rank):
    with cenote.connect(socket) as store:
        for step in range(STEPS):
            key = f"step/{step}/{rank}"
            with store.get(key, wait=True, timeout=60) as buffer:
                assert numpy.array_equal(numpy.frombuffer(buffer, numpy.int64), rows(rank, step)), key


def processes(kind, socket):
    fork = multiprocessing.get_context("fork")
    return [fork.Process(target=kind, args=(socket, rank), daemon=True) for rank in range(RANKS)]


def asked(store):
    """How many messages the daemon has had, and at what time."""
    return counter(store, "messages") + counter(store, "one_way"), time.monotonic()


def few(before, after, objects=0, attached=0):
    """Whether the messages between two looks are those of so many objects and processes. put: 2,
    get: 2, the report of the read: 1, tell: 1. Python's main thread asks again twice a second, so
    that Ctrl-C can end its wait; these questions are a few, too."""
    again = RANKS * (1 + 2 * (after[1] - before[1]))
    return after[0] - before[0] <= 6 * objects + 10 * attached + again + 5


def stand_still(store):
    """All consumers wait, for nothing is put; so does this process, for a second."""
    before = asked(store)
    with pytest.raises(cenote.Timeout):
        store.get("never", wait=True, timeout=1)
    assert few(before, asked(store)), "who waits asks"


@pytest.mark.parametrize("first", [consume, produce])
def test_station(store, node, first, record_property):
    """Consumers first: they wait for their objects. Producers first: they wait for room."""
    base, puts, room = used(store), counter(store, "puts"), counter(store, "waits_room")
    early = processes(first, node.socket)
    late = processes(produce if first is consume else consume, node.socket)
    for process in early:
        process.start()
    if first is consume:
        # One operation is the question itself.
        until(lambda: stats(store)["node"]["operations"] == RANKS + 1, "all consumers wait")
        stand_still(store)
    else:
        until(lambda: counter(store, "waits_room") > room, "a producer waits for room")
    before = asked(store)
    for process in late:
        process.start()
    for process in early + late:
        process.join(120)
    after = asked(store)
    assert [process.exitcode for process in early + late] == [0] * 2 * RANKS
    until(lambda: used(store) == base, "use is back at its base")
    assert store.list() == [] and counter(store, "puts") - puts == RANKS * STEPS
    record_property("messages for an object", (after[0] - before[0]) / (RANKS * STEPS))
    assert few(before, after, RANKS * STEPS, RANKS), f"{after[0] - before[0]} messages"
