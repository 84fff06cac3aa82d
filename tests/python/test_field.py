"""Cases from the field that are about Python and reinforcement learning, on one node.

K17-01 is in test_threads.py, K17-03 in test_versions.py.
"""

import multiprocessing
import os
import threading
import time

import cenote
import numpy
import pytest
from conftest import Caller, counter, until, used


def weights(key):
    return key.encode() * 1000


def read_until_gone(node, keys, removed, reads):
    """With a client of its own, round and round until none is found; returns what is wrong."""
    wrong = []
    with node.connect() as store:
        found = True
        while found:
            late = removed.is_set()  # what begins from here on must find nothing
            got = dict(zip(keys, store.get_batch(keys)))
            found = {key: b for key, b in got.items() if not isinstance(b, cenote.NotFound)}
            wrong += [f"{key} found after the removal" for key in found if late]
            wrong += [f"{key}: other bytes" for key, b in found.items() if b[:] != weights(key)]
            for buffer in found.values():
                buffer.release()
            reads.append(len(found))
    return wrong


def test_k18_01_readers_while_weights_go(store, node):
    """Eight clients read while the keys are removed: each read has the old bytes or finds
    nothing, and one that begins after the removal finds nothing.

    The remover knows its keys. Removal by prefix, for which the case asks, comes with the step
    of many nodes.
    """
    keys = [f"w12/{i}" for i in range(64)]
    assert store.put_batch(keys, [weights(key) for key in keys]) == [None] * 64
    removed = threading.Event()
    reads = [[] for _ in range(8)]
    readers = [Caller(lambda r=r: read_until_gone(node, keys, removed, r)) for r in reads]
    until(lambda: all(r[:1] == [64] for r in reads), "all of them read")
    assert store.remove_batch(keys) == [True] * 64
    removed.set()
    assert [reader.end() for reader in readers] == [[]] * 8


def test_k18_01_weights_of_before_are_gone(store, node):
    """After the removal nobody sees an old key; reads under way end with the old bytes; a put
    that began before does not bring a key back. By known keys, as above."""
    keys = [f"w12/{i}" for i in range(64)]
    clients = [node.connect() for _ in range(8)]
    for i, key in enumerate(keys[:48]):
        clients[i % 8].put(key, key.encode() * 1000)
    reads = [client.get(key) for client, key in zip(clients * 6, keys[:48])]
    writers = [clients[i % 8].create(key, 1000) for i, key in enumerate(keys[48:])]
    store.remove_batch(keys)
    for client in clients:
        assert client.exists_batch(keys) == [False] * 64
        assert all(isinstance(r, cenote.NotFound) for r in client.get_batch(keys))
    for writer in writers:
        with pytest.raises(cenote.Removed):
            writer.seal()
    assert store.list("w12/") == []
    for key, buffer in zip(keys, reads):
        assert bytes(buffer) == key.encode() * 1000
        buffer.release()
    for client in clients:
        client.close()


def consume(socket, keys, won, start):
    with cenote.connect(socket) as store:
        start.wait(60)
        for key in keys:
            try:
                with store.take(key) as buffer:
                    won.put(bytes(buffer).decode())
            except cenote.NotFound:
                pass


def test_k18_03_each_object_has_one_consumer(store, node):
    """Eight processes race for the same keys; the bytes are free after the release."""
    base = used(store)
    keys = [f"row/{i}" for i in range(200)]
    store.put_batch(keys, [key.encode() for key in keys])
    fork = multiprocessing.get_context("fork")
    won, start = fork.Queue(), fork.Barrier(8)
    processes = [fork.Process(target=consume, args=(node.socket, keys, won, start), daemon=True)
                 for _ in range(8)]
    for process in processes:
        process.start()
    got = [won.get(timeout=60) for _ in keys]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(got) == sorted(keys) and won.empty()
    until(lambda: used(store) == base, "the bytes are free")


FIELDS = 9


def rollout(store, rows):
    """Puts, reads as eight ranks would, and removes so many rows of 9 fields."""
    fields = [numpy.arange(1024, dtype=numpy.uint16) + i for i in range(FIELDS)]
    for row in range(rows):
        keys = [f"{row}/{field}" for field in range(FIELDS)]
        assert store.put_tensor_batch(keys, fields) == [None] * FIELDS
    for rank in range(8):
        for row in range(rank, rows, 8):
            got = store.get_tensor_batch([f"{row}/{field}" for field in range(FIELDS)])
            assert [int(tensor[1]) for tensor in got] == list(range(1, FIELDS + 1))
    del got
    for row in range(rows):
        store.remove_batch([f"{row}/{field}" for field in range(FIELDS)])


def processor_seconds(node):
    """What this process and the daemon have had of the processors. Other programs hardly
    change it, as they do the time of day."""
    with open(f"/proc/{node.process.pid}/stat") as stat:
        ticks = stat.read().rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def test_k18_05_work_is_linear_in_the_number_of_rows(make_node, record_property):
    """A row of 4,096 takes as many messages as one of 1,024, and not twice the work; with
    anything quadratic it would be four times. `python3 -m cenote.bench` tells the time of day,
    beside the 20 % of the case."""
    node = make_node("--pool", "256M")
    with node.connect() as store:
        rollout(store, 256)
        work, ratio = {1024: [], 4096: []}, 4
        while len(work[4096]) < 2 or (ratio > 1.2 and len(work[4096]) < 4):
            for rows, found in work.items():
                before, started = counter(store, "messages"), processor_seconds(node)
                rollout(store, rows)
                found.append((processor_seconds(node) - started) / rows)
                # Less the question itself: put, remove. A hit takes none.
                assert counter(store, "messages") - before - 1 == 2 * rows
            ratio = min(work[4096]) / min(work[1024])
    record_property("work for a row of 4,096 to one of 1,024", f"{ratio:.2f}")
    assert ratio < 2, work


def test_k18_07_a_failed_read_is_no_data(store):
    """A failure in the middle of a read of many tensors is the result of that tensor."""
    point = "ClientAfterHold"
    keys = [f"layer/{i}" for i in range(6)]
    store.put_tensor_batch(keys, [numpy.full(1000, i) for i in range(6)])
    if cenote.inject_fault(point, "return_error", -801, from_hit=4, times=2) == -1012:
        pytest.skip("a build without fault points")
    try:
        got = store.get_tensor_batch(keys)
        assert [isinstance(tensor, cenote.Corrupt) for tensor in got] == [False] * 3 + [True] * 2 + [False]
        for i in (0, 1, 2, 5):
            assert got[i].shape == (1000,) and (got[i] == i).all()
        cenote.inject_fault(point, "reset")
        cenote.inject_fault(point, "return_error", -801)
        with pytest.raises(cenote.Corrupt):
            store.get_tensor(keys[0])
    finally:
        cenote.inject_fault(point, "reset")
    del got
    assert [stat.holds for stat in store.stat_batch(keys)] == [0] * 6
