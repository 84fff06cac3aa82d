"""With a disk: more than the pool holds, durable puts, and where the bytes are."""

import cenote
import pytest
from conftest import stats

MIB = 1 << 20


@pytest.fixture
def disk_node(make_node, tmp_path):
    return make_node("--disk", str(tmp_path / "disk"), "--disk-size", "512M")


def value(i):
    return bytes([i + 1]) * (4 * MIB)


def test_more_than_the_pool_is_kept(disk_node):
    store = disk_node.connect()
    for i in range(32):  # twice the pool
        store.put(f"k{i}", value(i), softpin=True)
    assert sorted(entry.key for entry in store.list("k")) == sorted(f"k{i}" for i in range(32))
    out = [i for i in range(32) if not store.stat(f"k{i}").in_pool]
    assert out and all(store.stat(f"k{i}").on_disk for i in out)
    assert all(store.exists(f"k{i}") for i in range(32))
    for i in range(32):
        with store.get(f"k{i}") as buffer:
            assert bytes(buffer) == value(i)
    into = bytearray(4 * MIB)
    assert store.get_into(f"k{out[0]}", into) == 4 * MIB and into == value(out[0])
    for i in range(0, 32, 8):
        for j, buffer in zip(range(i, i + 8), store.get_batch([f"k{j}" for j in range(i, i + 8)])):
            assert bytes(buffer) == value(j)
            buffer.release()
    assert store.remove_batch([f"k{i}" for i in range(32)]) == [True] * 32
    assert store.list() == [] and stats(store)["disk"]["objects"] == 0


def test_durable(disk_node):
    store = disk_node.connect()
    store.put("small", b"s", softpin=True, durable=True)
    store.put_parts("parts", [b"a", bytes(MIB)], durable=True)
    with store.create("made", MIB, softpin=True, durable=True) as writer:
        writer[:2] = b"ab"
    assert store.put_batch(["b1", "b2"], [bytes(MIB), b"2"], softpin=True, durable=True) == [None] * 2
    for key in ("small", "parts", "made", "b1", "b2"):
        stat = store.stat(key)
        assert stat.in_pool and stat.on_disk, key
    disk_node.kill()
    disk_node.start()
    assert bytes(store.get("small")) == b"s"
    with pytest.raises(cenote.Exists):
        store.put("small", b"t", durable=True)
    assert store.remove("small") and store.remove("made")


def test_durable_needs_a_disk(node):
    store = node.connect()
    with pytest.raises(cenote.NotSupported, match="no disk"):
        store.put("k", b"v", durable=True)
    assert store.put_batch(["k"], [b"v"], durable=True)[0].__class__ is cenote.NotSupported
    assert not store.exists("k")
    store.put("k", b"v")
    stat = store.stat("k")
    assert stat.in_pool and not stat.on_disk


def test_what_is_on_disk_outlives_the_daemon(disk_node):
    store = disk_node.connect()
    for i in range(24):
        store.put(f"k{i}", value(i), softpin=True)
    disk_node.kill()
    disk_node.start()
    for i in range(24):
        assert bytes(store.get(f"k{i}")) == value(i)
