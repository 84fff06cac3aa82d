"""put, get and remove of one key, and all that one may ask about it."""

import pickle

import cenote
import pytest
from conftest import until


def test_put_get_remove(store):
    store.put("a/b", b"hello")
    with store.get("a/b") as buffer:
        assert bytes(buffer) == b"hello"
        assert len(buffer) == buffer.size == 5
        assert buffer.generation > 0
    assert store.remove("a/b") is True
    assert store.remove("a/b") is False
    with pytest.raises(cenote.NotFound):
        store.get("a/b")


@pytest.mark.parametrize("key", ["k", "schlüssel/鍵", b"raw\xff\x01", "x" * 1024])
def test_keys(store, key):
    store.put(key, b"1")
    assert store.exists(key)
    assert [entry.key for entry in store.list()] == [key]
    assert bytes(store.get(key)) == b"1"


@pytest.mark.parametrize("key", ["", "x" * 1025, "a\0b", b"a\0b"])
def test_bad_keys(store, key):
    with pytest.raises(cenote.BadKey) as caught:
        store.put(key, b"1")
    assert isinstance(caught.value, ValueError)
    assert str(len(key)) in str(caught.value)
    with pytest.raises(cenote.BadKey):
        store.get(key)


@pytest.mark.parametrize("key", [None, 7, ["k"], bytearray(b"k")])
def test_keys_of_wrong_type(store, key):
    with pytest.raises(TypeError, match="str or bytes"):
        store.get(key)


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, 8 << 20])
def test_sizes(store, size):
    data = bytes(i * 37 % 251 for i in range(256)) * (size // 256 + 1)
    data = data[:size]
    store.put("k", data)
    assert bytes(store.get("k")) == data
    there = bytearray(size + 3)
    assert store.get_into("k", there) == size
    assert there == data + b"\0\0\0"
    assert store.stat("k").size == size


def test_get_into_of_a_short_buffer(store):
    store.put("k", b"12345")
    with pytest.raises(cenote.BufferTooSmall, match="5 .*4|4 .*5"):
        store.get_into("k", bytearray(4))
    with pytest.raises(BufferError):
        store.get_into("k", b"12345")


def test_put_takes_any_buffer(store):
    for i, data in enumerate([bytearray(b"123"), memoryview(b"123"), b"123"]):
        store.put(f"k{i}", data)
        assert bytes(store.get(f"k{i}")) == b"123"
    with pytest.raises(TypeError):
        store.put("text", "123")
    with pytest.raises(BufferError):
        store.put("strided", memoryview(b"123456")[::2])
    assert not store.exists("text") and not store.exists("strided")


def test_put_parts(store):
    store.put_parts("k", [b"ab", b"", memoryview(b"cde"), bytearray(100_000)])
    assert bytes(store.get("k")) == b"abcde" + bytes(100_000)
    store.put_parts("none", [])
    assert store.stat("none").size == 0
    with pytest.raises(TypeError, match="parts"):
        store.put_parts("bad", b"bytes are no list of parts")


def test_exists_stat_touch(store):
    assert store.exists("k") is False
    with pytest.raises(cenote.NotFound):
        store.stat("k")
    with pytest.raises(cenote.NotFound):
        store.touch("k")
    store.put("k", b"123", softpin=True)
    assert store.exists("k") is True
    store.touch("k")
    stat = store.stat("k")
    assert (stat.size, stat.expires_in, stat.softpin, stat.holds) == (3, None, True, 0)
    with store.get("k") as buffer:
        assert store.stat("k").holds == 1
        assert buffer.generation == stat.generation


def test_list_by_prefix(store):
    for key in ("a/1", "a/2", "b/1"):
        store.put(key, key.encode())
    store.put(b"a/\xff", b"", softpin=True)
    assert sorted(e.key for e in store.list("b/")) == ["b/1"]
    entries = {e.key: e for e in store.list(prefix="a/")}
    assert set(entries) == {"a/1", "a/2", b"a/\xff"}
    assert entries["a/1"].size == 3 and not entries["a/1"].softpin
    assert entries[b"a/\xff"].size == 0 and entries[b"a/\xff"].softpin
    assert len(store.list()) == 4
    assert store.list("nothing") == []


def test_exists_error_keeps_the_object(store):
    store.put("k", b"first")
    with pytest.raises(cenote.Exists) as caught:
        store.put("k", b"second")
    assert caught.value.key == "k" and caught.value.code == -705 and "k" in str(caught.value)
    assert bytes(store.get("k")) == b"first"


def test_ttl(store):
    store.put("short", b"1", ttl=0.05)
    store.put("long", b"1", ttl=1000)
    assert 990 < store.stat("long").expires_in <= 1000
    until(lambda: not store.exists("short"), "the object has expired")
    assert store.exists("long")


def test_take_has_one_winner(store):
    store.put("k", b"once")
    with store.take("k") as buffer:
        assert not store.exists("k")
        with pytest.raises(cenote.NotFound):
            store.take("k")
        assert bytes(buffer) == b"once"


def test_timeouts(store):
    for call in (lambda: store.wait("absent", timeout=0.01), lambda: store.wait("absent", timeout=0),
                 lambda: store.get("absent", wait=True, timeout=0.01),
                 lambda: store.take("absent", wait=True, timeout=0.01),
                 lambda: store.get_into("absent", bytearray(1), wait=True, timeout=0.01)):
        with pytest.raises(cenote.Timeout) as caught:
            call()
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.key == "absent" and "absent" in str(caught.value)


def test_too_large_and_no_space(store):
    with pytest.raises(cenote.TooLarge):
        store.create("k", 1 << 40)
    store.put("pinned", bytes(40 << 20), softpin=True)
    with pytest.raises((cenote.NoSpace, cenote.Timeout)):
        store.put("more", bytes(40 << 20), timeout=0.05)


@pytest.mark.parametrize("options, error", [
    ({"timeout": -1}, ValueError), ({"timeout": "1"}, TypeError), ({"ttl": 0}, ValueError),
    ({"ttl": float("nan")}, ValueError), ({"no_such": 1}, TypeError)])
def test_bad_options(store, options, error):
    with pytest.raises(error):
        store.put("k", b"1", **options)
    assert not store.exists("k")


@pytest.mark.parametrize("name, most", [("readers", 65535), ("replicas", 8), ("size", 2**64 - 1)])
def test_numbers_out_of_range(store, name, most):
    for value in (-1, most + 1, 2**64, -2**70):
        with pytest.raises(ValueError, match=f"^{name} must be 0 to {most}, not {value}$"):
            if name == "size":
                store.create("k", value)
            else:
                store.put("k", b"1", softpin=True, **{name: value})
    with pytest.raises(ValueError, match="^size must be 0 to 18446744073709551615, not -1$"):
        store.create_batch(["k"], [-1])
    assert not store.exists("k")


def test_arguments_are_as_documented(store):
    store.put(key="k", data=b"1")
    with pytest.raises(TypeError, match="positional"):
        store.put("k", b"1", True)
    with pytest.raises(TypeError, match="required.*data"):
        store.put("k")
    with pytest.raises(TypeError, match="multiple values"):
        store.put("k", b"1", key="k")
    wait = "".join(["wa", "it"])  # a name made at run time
    assert bytes(store.get("k", **{wait: True}, timeout=None)) == b"1"
    assert bytes(store.get_buffer("k")) == b"1"


def test_create_seals(store):
    with store.create("k", 10, softpin=True) as writer:
        assert len(writer) == writer.size == 10
        assert not store.exists("k")
        writer[:] = b"0123456789"
        writer[3] = ord("x")
    assert bytes(store.get("k")) == b"012x456789"
    assert store.stat("k").softpin
    with pytest.raises(ValueError):
        writer[0] = 1
    with pytest.raises(ValueError):
        writer.seal()


def test_create_aborts_on_an_exception(store):
    with pytest.raises(ZeroDivisionError):
        with store.create("k", 10) as writer:
            writer[:] = bytes(10)
            1 / 0
    assert not store.exists("k")
    store.put("k", b"free again")


def test_create_by_hand(store):
    writer = store.create("k", 3)
    writer[:] = b"abc"
    writer.seal()
    assert bytes(store.get("k")) == b"abc"
    writer = store.create("other", 3)
    writer.abort()
    assert not store.exists("other")
    del writer
    store.create("dropped", 3)  # nobody has it: aborted
    store.put("dropped", b"1", timeout=1)


def test_removed_before_its_end(store):
    writer = store.create("k", 3)
    store.remove("k")
    with pytest.raises(cenote.Removed) as caught:
        writer.seal()
    assert caught.value.key == "k"
    assert not store.exists("k")


def test_close(node):
    store = node.connect()
    store.put("kept", b"bytes")
    buffer = store.get("kept")
    view = memoryview(buffer)
    store.close()
    store.close()
    assert store.closed
    for call in (lambda: store.get("kept"), lambda: store.exists("kept"), store.list,
                 store.reattach, store.__enter__, lambda: store.get_batch(["kept"])):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert bytes(view) == b"bytes"
    del store
    assert bytes(view) == b"bytes"
    view.release()
    buffer.release()
    with node.connect() as again:
        assert again.remove("kept")


def test_read_only(node, store):
    store.put("k", b"1")
    with node.connect(read_only=True) as reader:
        assert reader.read_only and bytes(reader.get("k")) == b"1"
        with pytest.raises(cenote.NotPermitted) as caught:
            reader.put("other", b"1")
        assert isinstance(caught.value, PermissionError)


def test_no_daemon(tmp_path):
    with pytest.raises(cenote.Unavailable) as caught:
        cenote.connect(tmp_path / "none.sock", timeout=0.01)
    assert isinstance(caught.value, ConnectionError) and "none.sock" in str(caught.value)


def test_socket_from_the_environment(node, monkeypatch):
    monkeypatch.setenv("CENOTE_SOCKET", node.socket)
    with cenote.connect() as store:
        assert store.socket is None and not store.closed


def test_an_empty_name_of_a_socket_is_none(node, monkeypatch):
    monkeypatch.setenv("CENOTE_SOCKET", node.socket)
    with pytest.raises(cenote.BadArgument, match="socket path of 0 bytes"):
        cenote.connect("")


def test_a_store_travels_by_pickle(node, store):
    store.put("k", b"1")
    with pickle.loads(pickle.dumps(store)) as copy:
        assert copy.socket == node.socket and bytes(copy.get("k")) == b"1"


def test_errors_travel_by_pickle(store):
    with pytest.raises(cenote.NotFound) as caught:
        store.get("absent")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), copy.code, copy.key) == (
        cenote.NotFound, str(caught.value), -704, "absent")


def test_every_kind_of_error_is_its_own_class():
    kinds = [k for k in vars(cenote).values() if isinstance(k, type) and issubclass(k, Exception)]
    assert len(kinds) == 28 and all(issubclass(k, cenote.CenoteError) for k in kinds)
    assert all(k.__module__ == "cenote" and k.__doc__ for k in kinds)


def test_node(store):
    assert store.info("check").strip() == "ok"
    assert "pool" in store.info("config")
    with pytest.raises(ValueError):
        store.info("weather")
    address, size = store.pool_region()
    assert address and size == 64 << 20


def test_drain(store):
    """Of a node that is alone; of one among others in tests/e2e/test_cluster_keep.py."""
    for call in (store.drain, lambda: store.drain(True), lambda: store.drain(end=False)):
        with pytest.raises(cenote.NotSupported, match="alone"):
            call()
    for bad in (lambda: store.drain(1, 2), lambda: store.drain(begin=True)):
        with pytest.raises(TypeError):
            bad()


def test_docstrings_have_signatures():
    import inspect
    for name in dir(cenote.Store):
        method = getattr(cenote.Store, name)
        if callable(method) and not name.startswith("_"):
            assert inspect.signature(method) and method.__doc__, name


def test_the_daemon_goes_away_and_comes_back(make_node):
    node = make_node()
    store = node.connect()
    store.put("k", b"1")
    buffer = store.get("k")
    node.kill()
    assert bytes(store.get("k")) == b"1"  # a hit needs no daemon
    with pytest.raises(cenote.Unavailable):
        store.put("other", b"1", timeout=0.1)
    node.start()
    store.put("other", b"2")
    assert bytes(buffer) == b"1" and bytes(store.get("other")) == b"2"


def test_faults(store):
    status = store.get_fault_status_local_master("NodeOnMessage")
    if status == -1012:
        assert cenote.inject_fault("ClientBeforeGetSend", "return_error", -5) == -1012
        pytest.skip("a build without fault points")
    assert set(status) == {"hits", "fired"}
    point = "ClientBeforeGetSend"
    assert cenote.inject_fault(point, "return_error", -12345, from_hit=2, times=1) == 0
    with pytest.raises(cenote.NotFound):
        store.get("absent")
    with pytest.raises(cenote.CenoteError) as caught:
        store.get("absent")
    assert type(caught.value) is cenote.CenoteError and caught.value.code == -12345
    assert cenote.get_fault_status(point) == {"hits": 2, "fired": 1}
    assert store.inject_fault(point, "reset") == 0
    assert store.get_fault_status(point) == {"hits": 0, "fired": 0}
    assert cenote.inject_fault("NoSuchPoint", "sleep", 1) < 0
    assert cenote.get_fault_status("NoSuchPoint") < 0
    assert store.inject_fault_local_master("NodeOnMessage", "no such action", 1, 1, 1) < 0
