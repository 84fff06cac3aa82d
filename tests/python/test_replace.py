"""Puts that replace: the old object's readers go on, a new get finds the new one."""

import cenote
import numpy
import pytest


def test_put_replaces(store):
    store.put("k", b"old")
    with store.get("k") as old:
        store.put("k", b"the new one", replace=True)
        with store.get("k") as new:
            assert (bytes(old), bytes(new)) == (b"old", b"the new one")
            assert new.generation > old.generation
            assert store.stat("k").generation == new.generation
    with pytest.raises(cenote.Exists):
        store.put("k", b"again", replace=False)
    assert bytes(store.get("k")) == b"the new one"


def test_upsert(store):
    store.upsert("k", b"first", softpin=True, ttl=1000)
    assert store.stat("k").softpin and store.stat("k").expires_in is not None
    store.upsert(key="k", data=bytes(100_000))
    stat = store.stat("k")
    assert (stat.size, stat.softpin, stat.expires_in) == (100_000, False, None)
    with pytest.raises(TypeError, match="replace"):
        store.upsert("k", b"1", replace=True)
    with pytest.raises(TypeError, match="required.*data"):
        store.upsert("k")


def test_parts_and_writers_replace(store):
    store.put("k", b"old", softpin=True)
    store.put_parts("k", [b"a", bytes(70_000)], replace=True)
    assert store.stat("k").size == 70_001
    with store.create("k", 3, replace=True) as writer:
        writer[:] = b"abc"
        assert store.stat("k").size == 70_001
    assert bytes(store.get("k")) == b"abc"
    with pytest.raises(ZeroDivisionError):
        with store.create("k", 3, replace=True):
            1 / 0
    assert bytes(store.get("k")) == b"abc"


def test_batches_replace(store):
    store.put_batch(["a", "b"], [b"1", b"2"])
    results = store.put_batch(["a", "c"], [b"x", b"y"])
    assert isinstance(results[0], cenote.Exists) and results[1] is None
    assert store.put_batch(["a", "b", "d", "a"], [b"3", b"4", b"5", b"6"], replace=True) == [None] * 4
    assert [bytes(b) for b in store.get_batch("abcd".__iter__())] == [b"6", b"4", b"y", b"5"]
    writers = store.create_batch(["a", "e"], [100_000, 1], replace=True)
    for writer in writers:
        writer.seal()
    assert [s.size for s in store.stat_batch(["a", "e"])] == [100_000, 1]


def test_tensors_replace(store):
    store.put_tensor("t", numpy.arange(3.0))
    old = store.get_tensor("t")
    store.put_tensor("t", numpy.eye(2), replace=True)
    assert store.get_tensor("t").tolist() == [[1, 0], [0, 1]] and old.tolist() == [0, 1, 2]
    large = numpy.zeros((300, 400))[:, ::2]  # written in place, being strided
    store.put_tensor("t", large, replace=True)
    assert store.get_tensor("t").shape == (300, 200)
    assert store.put_tensor_batch(["t", "u"], [numpy.ones(1)] * 2, replace=True) == [None, None]
    assert store.get_tensor("t").tolist() == [1]
    with pytest.raises(cenote.Exists):
        store.put_tensor("t", large)
    del old


def test_removed_before_its_end(store):
    store.put("k", b"old")
    writer = store.create("k", 3, replace=True)
    store.remove("k")
    with pytest.raises(cenote.Removed):
        writer.seal()
    assert not store.exists("k")


def test_the_last_to_end_stays(store):
    plain = store.create("k", 3)
    first, second = (store.create("k", 3, replace=True) for _ in range(2))
    second[:], first[:] = b"2nd", b"1st"
    second.seal()
    first.seal()
    with pytest.raises(cenote.Exists):
        plain.seal()
    assert bytes(store.get("k")) == b"1st"
