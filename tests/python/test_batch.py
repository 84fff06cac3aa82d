"""Batches: each key has its own result."""

import cenote
import numpy
import pytest


def kinds(results):
    return [type(r) for r in results]


def test_put_batch(store):
    store.put("b", b"old")
    results = store.put_batch(
        ["a", "b", "c", b"\xff", "a" * 2000], [b"1", b"2", [b"3", bytearray(100_000)], (), b"5"])
    assert results[0] is results[2] is results[3] is None
    assert kinds(results[1::3]) == [cenote.Exists, cenote.BadKey]
    assert results[1].key == "b" and "key 'b'" in str(results[1])
    assert bytes(store.get("a")) == b"1" and bytes(store.get("b")) == b"old"
    assert bytes(store.get("c")) == b"3" + bytes(100_000)
    assert store.stat(b"\xff").size == 0


def test_get_batch(store):
    store.put_batch(["a", "b"], [b"1", b"22"])
    got = store.get_batch(["b", "none", "a", "b"])
    assert kinds(got) == [cenote.Buffer, cenote.NotFound, cenote.Buffer, cenote.Buffer]
    assert [bytes(b) for b in (got[0], got[2], got[3])] == [b"22", b"1", b"22"]
    assert store.stat("b").holds == 2
    array = numpy.frombuffer(got[2], numpy.uint8)
    del got
    assert store.stat("b").holds == 0 and store.stat("a").holds == 1
    assert array[0] == ord("1")


def test_get_batch_waits_with_one_deadline(store):
    store.put("a", b"1")
    got = store.get_batch(["a", "x", "y"], wait=True, timeout=0.01)
    assert kinds(got) == [cenote.Buffer, cenote.Timeout, cenote.Timeout]
    # Longer than a slice of a wait in the main thread: nothing is lost or asked for twice.
    got = store.get_batch(["x", "a", "y", "a"], wait=True, timeout=0.7)
    assert kinds(got) == [cenote.Timeout, cenote.Buffer, cenote.Timeout, cenote.Buffer]
    assert store.stat("a").holds == 3 - 1


def test_get_into_batch(store):
    store.put_batch(["a", "b"], [b"1", b"22"])
    there = [bytearray(4), bytearray(1), numpy.zeros(2, numpy.uint8)]
    got = store.get_into_batch(["b", "b", "a"], there)
    assert (got[0], type(got[1]), got[2]) == (2, cenote.BufferTooSmall, 1)
    assert there[0] == b"22\0\0" and there[1] == b"\0" and list(there[2]) == [ord("1"), 0]
    got = store.get_into_batch(["a", "none"], there[:2], wait=True, timeout=0.01)
    assert got[0] == 1 and isinstance(got[1], cenote.Timeout)
    with pytest.raises(BufferError):
        store.get_into_batch(["a", "b"], [bytearray(4), b"read only"])
    there[0].clear()  # no buffer was left exported


def test_exists_stat_touch_remove_batch(store):
    store.put_batch(["a", "b"], [b"1", b"22"], softpin=True)
    keys = ("a", "none", "b")
    assert store.exists_batch(keys) == [True, False, True]
    stat = store.stat_batch(keys)
    assert (stat[0].size, stat[2].size, stat[2].softpin) == (1, 2, True)
    assert isinstance(stat[1], cenote.NotFound) and stat[1].key == "none"
    touched = store.touch_batch(keys)
    assert touched[0] is touched[2] is None and isinstance(touched[1], cenote.NotFound)
    assert store.remove_batch(keys) == [True, False, True]
    assert store.remove_batch(keys) == [False, False, False]
    bad = store.exists_batch(["a", ""])
    assert bad[0] is False and isinstance(bad[1], cenote.BadKey)


def test_take_batch(store):
    store.put_batch(["a", "b"], [b"1", b"22"])
    got = store.take_batch(["a", "none", "b"])
    assert kinds(got) == [cenote.Buffer, cenote.NotFound, cenote.Buffer]
    assert bytes(got[0]) == b"1" and bytes(got[2]) == b"22"
    assert store.list() == []


def test_create_batch(store):
    store.put("b", b"old")
    writers = store.create_batch(["a", "b", "c", "d"], [1, 2, 100_000, 0])
    assert kinds(writers) == [cenote.Writer, cenote.Exists, cenote.Writer, cenote.Writer]
    with writers[0] as writer:
        writer[:] = b"x"
    writers[2].abort()
    writers[3].seal()
    assert store.exists_batch("abcd".__iter__()) == [True, True, False, True]
    writers = store.create_batch(["e"], [10])
    del writers
    store.put("e", b"free again", timeout=1)


def test_empty_batches(store):
    assert store.put_batch([], []) == store.get_batch(()) == store.take_batch([]) == []
    assert store.exists_batch([]) == store.stat_batch([]) == store.remove_batch([]) == []
    assert store.touch_batch([]) == store.create_batch([], []) == store.get_into_batch([], []) == []


def test_large_batch(store):
    keys = [f"{i:04}" for i in range(3000)]
    assert store.put_batch(keys, [key.encode() for key in keys]) == [None] * 3000
    assert [bytes(b).decode() for b in store.get_batch(keys)] == keys
    assert store.remove_batch(iter(keys)) == [True] * 3000


@pytest.mark.parametrize("call", [
    lambda s: s.get_batch("abc"), lambda s: s.get_batch(b"abc"), lambda s: s.get_batch([1]),
    lambda s: s.get_batch(None), lambda s: s.put_batch(["a"], b"1"),
    lambda s: s.put_batch(["a"], [1]), lambda s: s.create_batch(["a"], ["1"])])
def test_wrong_types(store, call):
    with pytest.raises(TypeError):
        call(store)
    assert store.list() == []


def test_lengths_that_differ(store):
    with pytest.raises(ValueError, match="2 keys, but 1 values"):
        store.put_batch(["a", "b"], [b"1"])
    with pytest.raises(ValueError, match="1 keys, but 2 buffers"):
        store.get_into_batch(["a"], [bytearray(1)] * 2)
    assert store.list() == []


def test_a_closed_store_in_a_batch_keeps_nothing(store, node):
    with node.connect() as other:
        data = bytearray(10)
    with pytest.raises(ValueError, match="closed"):
        other.put_batch(["a"], [data])
    data.clear()  # not exported any more
