"""Cases from the field that are about Python and reinforcement learning, on one node.

K17-01 is in test_threads.py, K17-03 in test_versions.py.
"""

import multiprocessing
import time

import cenote
import numpy
import pytest
from conftest import until, used


def test_k18_01_weights_of_before_are_gone(store, node):
    """After the removal nobody sees an old key; reads under way end with the old bytes; a put
    that began before does not bring a key back."""
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


def consume(socket, keys, won):
    with cenote.connect(socket) as store:
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
    won = fork.Queue()
    processes = [fork.Process(target=consume, args=(node.socket, keys, won)) for _ in range(8)]
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
    """Seconds to put, read as eight ranks would, and remove so many rows of 9 fields."""
    fields = [numpy.arange(1024, dtype=numpy.uint16) + i for i in range(FIELDS)]
    started = time.perf_counter()
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
    return time.perf_counter() - started


def test_k18_05_time_is_linear_in_the_number_of_rows(make_node):
    """Four times the rows take four times as long, within 20 %. The machine has other work
    too, so the best of a few pairs counts."""
    with make_node("--pool", "256M").connect() as store:
        rollout(store, 256)
        ratios = []
        while len(ratios) < 6 and (not ratios or min(ratios) > 1.2):
            small = min(rollout(store, 1024) for _ in range(2))
            ratios.append(rollout(store, 4096) / small / 4)
        assert min(ratios) <= 1.2, ratios


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
