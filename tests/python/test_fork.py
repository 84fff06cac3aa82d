"""A forked child has no store until it says so, and harms nothing of its parent."""

import multiprocessing

import cenote
import numpy
import pytest
from conftest import forked, stats

CALLS = {
    "get": lambda s: s.get("k"),
    "get and wait": lambda s: s.get("none", wait=True, timeout=None),
    "put": lambda s: s.put("other", b"1"),
    "create": lambda s: s.create("other", 1),
    "get_into": lambda s: s.get_into("k", bytearray(10)),
    "take": lambda s: s.take("k"),
    "wait": lambda s: s.wait("k"),
    "exists": lambda s: s.exists("k"),
    "stat": lambda s: s.stat("k"),
    "list": lambda s: s.list(),
    "touch": lambda s: s.touch("k"),
    "remove": lambda s: s.remove("k"),
    "info": lambda s: s.info("stats"),
}


def test_every_call_is_a_clear_error(store):
    store.put("k", b"parent")

    def child():
        for name, call in CALLS.items():
            with pytest.raises(cenote.ForkedError):
                call(store)
                raise AssertionError(name)
        for result in store.get_batch(["k"]) + store.put_batch(["x"], [b"1"]) + store.exists_batch(["k"]):
            assert isinstance(result, cenote.ForkedError)

    forked(child)
    assert bytes(store.get("k")) == b"parent" and [e.key for e in store.list()] == ["k"]


def test_reattach(store):
    store.put("k", b"parent")

    def child():
        store.reattach()
        assert bytes(store.get("k")) == b"parent"
        store.put("child", b"1")
        store.reattach()  # does nothing
        store.close()

    forked(child)
    store.reattach()  # neither does it here
    assert bytes(store.get("child")) == b"1"


def test_connect_anew(store, node):
    store.put("k", b"parent")

    def child():
        with node.connect() as own:
            assert bytes(own.get("k")) == b"parent"
            with pytest.raises(cenote.ForkedError):
                store.get("k")

    forked(child)


def test_buffers_of_the_parent(store):
    store.put("k", numpy.arange(1000))
    buffer = store.get("k")
    array = numpy.frombuffer(store.get("k"), int)
    writer = store.create("w", 10)

    def child():
        for view in (memoryview, bytes, lambda b: b[0]):
            with pytest.raises(cenote.ForkedError):
                view(buffer)
        with pytest.raises(cenote.ForkedError):
            writer[0] = 1
        with pytest.raises(cenote.ForkedError):
            buffer.release()
        assert buffer.released
        store.reattach()
        with pytest.raises(ValueError):
            memoryview(buffer)
        assert bytes(store.get("k")) == numpy.arange(1000).tobytes()

    forked(child)
    assert sum(client["holds"] for client in stats(store)["clients"]) == 2
    assert (array == numpy.arange(1000)).all() and bytes(buffer) == array.tobytes()
    writer[:] = bytes(10)
    writer.seal()


def test_a_childs_end_ends_nothing_of_the_parent(store):
    """All that the child drops was the parent's: its holds and its open put stay."""
    store.put("k", b"parent")
    held = {"buffer": store.get("k"), "writer": store.create("w", 3)}

    def child():
        held.clear()
        store.close()

    forked(child)
    assert store.stat("k").holds == 1 and bytes(held["buffer"]) == b"parent"
    held["writer"][:] = b"abc"
    held["writer"].seal()
    assert bytes(store.get("w")) == b"abc"


def test_a_child_of_a_child(store):
    store.put("k", b"1")

    def grandchild():
        with pytest.raises(cenote.ForkedError):
            store.get("k")
        store.reattach()
        assert bytes(store.get("k")) == b"1"

    def child():
        store.reattach()
        forked(grandchild)
        assert bytes(store.get("k")) == b"1"

    forked(child)



attached = None


def start_worker(store):
    global attached
    attached = store
    attached.reattach()


def work_attached(i):
    return int(numpy.frombuffer(attached.get(f"row/{i}"), int).sum())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pool_of_workers(store, method):
    """Forked workers re-attach; spawned ones get the store by pickle, which connects."""
    for i in range(8):
        store.put(f"row/{i}", numpy.full(100, i))
    with multiprocessing.get_context(method).Pool(2, start_worker, (store,)) as pool:
        assert pool.map(work_attached, range(8)) == [100 * i for i in range(8)]
        pool.close()
        pool.join()
