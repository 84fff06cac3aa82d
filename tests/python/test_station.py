"""A transfer station: producers put what consumers wait for, and it goes when it was read.

More passes through than the pool holds, so producers wait for room, too. Nobody polls: the
daemon counts its messages, and there is a fixed number of them for each object.
"""

import multiprocessing

import cenote
import numpy
from conftest import stats, until, used

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


def test_station(store, node):
    base, before = used(store), stats(store)
    fork = multiprocessing.get_context("fork")
    processes = []
    for rank in range(RANKS):
        # Each consumer takes what another rank produces.
        processes.append(fork.Process(target=consume, args=(node.socket, (rank + 3) % RANKS)))
        processes.append(fork.Process(target=produce, args=(node.socket, rank)))
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 2 * RANKS
    until(lambda: used(store) == base, "use is back at its base")
    assert store.list() == []
    after = stats(store)
    objects = RANKS * STEPS
    assert count(after, "puts") - count(before, "puts") == objects
    # put: 2, get: 2 (with its unpin), remove or report: 1, tell: 1; a wait in a main thread
    # asks again twice a second; attach and these questions: a few each.
    asked = count(after, "messages") + count(after, "one_way") - count(before, "messages") \
        - count(before, "one_way")
    assert asked < 10 * objects, f"{asked} messages for {objects} objects"


def count(numbers, name):
    """A counter, wherever in the statistics it stands."""
    found = [part[name] for part in numbers.values() if isinstance(part, dict) and name in part]
    assert len(found) == 1, name
    return found[0]
