"""Tensors: what comes out is what went in, in place."""

import os
import struct
import subprocess
import sys

import cenote
import numpy
import pytest
from cenote import tensor as module
from conftest import until, used

DTYPES = [name for name in module.ITEM_SIZES
          if not name.startswith(("bfloat", "float8"))]


def sample(dtype, shape=(3, 5)):
    return (numpy.arange(numpy.prod(shape)) % 2).astype(dtype).reshape(shape)


def same(got, want):
    return (got.dtype == want.dtype and got.shape == want.shape
            and got.tobytes() == numpy.ascontiguousarray(want).tobytes())


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(store, dtype):
    array = sample(dtype)
    store.put_tensor("k", array)
    assert same(store.get_tensor("k"), array)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4, 5), (1,) * 32, (70_000,)])
def test_shapes(store, shape):
    array = sample("float32", shape)
    store.put_tensor("k", array)
    assert same(store.get_tensor("k"), array)


STRIDED = {
    "transposed": lambda a: a.T,
    "fortran": numpy.asfortranarray,
    "every second": lambda a: a[::2, 1::3],
    "backwards": lambda a: a[::-1],
    "broadcast": lambda a: numpy.broadcast_to(a[:1], a.shape),
    "other end": lambda a: a.astype(">i4"),
}


@pytest.mark.parametrize("side", [20, 500], ids=["small", "in place"])
@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
def test_strided(store, make, side):
    array = make(numpy.arange(side * side, dtype=numpy.int32).reshape(side, side))
    store.put_tensor("k", array)
    got = store.get_tensor("k")
    assert got.flags.c_contiguous and got.dtype == numpy.int32
    assert (got == array).all()


def test_in_place_and_aligned(store):
    base = used(store)
    store.put_tensor("k", numpy.ones(1 << 20))
    got = store.get_tensor("k")
    address, size = store.pool_region()
    assert address <= got.ctypes.data < address + size and got.ctypes.data % 64 == 0
    assert not got.flags.writeable
    part = got[5:10]
    del got
    store.remove("k")
    assert used(store) > base and part.sum() == 5
    del part
    until(lambda: used(store) == base, "the bytes are free")


@pytest.mark.parametrize("bad", [
    numpy.array([object()]), numpy.array(["text"]), numpy.zeros(2, "i4,f8"),
    numpy.array("2020-01-01", "M8[D]"), numpy.longdouble(1)], ids=lambda a: a.dtype.name)
def test_dtypes_that_cannot_be_stored(store, bad):
    with pytest.raises(TypeError, match="cannot be stored"):
        store.put_tensor("k", bad)
    assert not store.exists("k")


def test_lists_and_numbers(store):
    store.put_tensor("k", [[1, 2], [3, 4]])
    assert store.get_tensor("k").tolist() == [[1, 2], [3, 4]]
    store.put_tensor("n", 1.5)
    assert store.get_tensor("n")[()] == 1.5


def test_options_and_errors(store):
    store.put_tensor("k", [1], softpin=True, ttl=1000)
    assert store.stat("k").softpin and store.stat("k").expires_in > 0
    with pytest.raises(cenote.Exists):
        store.put_tensor("k", [2])
    with pytest.raises(cenote.Exists):
        store.put_tensor("k", numpy.ones((300, 300)).T)
    with pytest.raises(cenote.NotFound):
        store.get_tensor("none")
    with pytest.raises(cenote.Timeout):
        store.get_tensor("none", wait=True, timeout=0.01)
    store.put_tensor("once", numpy.arange(3), readers=1)
    with pytest.raises(ValueError, match="framework"):
        store.get_tensor("once", framework="tf")
    with pytest.raises(ValueError, match="framework"):
        store.get_tensor_batch(["once"], framework="tf")
    assert store.stat("once").readers_left == 1
    store.get_tensor("once")
    assert store.stat("k").holds == 0


def header(**changes):
    fields = {"magic": b"CnTn", "version": 1, "kind": 1, "count": 1, "offset": 64,
              "name": b"float32", "shape": 2, **changes}
    head = struct.pack("<4sHBBI20sQ", *fields.values())
    return head.ljust(64, b"\0") + bytes(8)


def test_the_layout_as_documented(store):
    store.put("k", header())
    assert same(store.get_tensor("k"), numpy.zeros(2, numpy.float32))
    store.put_tensor("again", numpy.zeros(2, numpy.float32))
    assert bytes(store.get("again")) == header()


@pytest.mark.parametrize("data", [
    b"", b"short", bytes(200), header(magic=b"CnTx"), header(version=2), header(name=b"float31"),
    header(count=255), header(count=2), header(offset=32), header(offset=1 << 31), header(shape=3),
    header(shape=1 << 62), header(name=b"\xff" * 20), header(count=0)])
def test_no_tensor(store, data):
    store.put("k", data)
    with pytest.raises(ValueError):
        store.get_tensor("k")
    assert store.stat("k").holds == 0


def test_batches(store):
    arrays = [numpy.arange(5), numpy.float32(1.5), numpy.zeros((0, 3)), numpy.ones((200, 200)).T]
    assert store.put_tensor_batch("abcd".__iter__(), arrays) == [None] * 4
    again = store.put_tensor_batch(["d", "e"], [[1], [2]])
    assert isinstance(again[0], cenote.Exists) and again[1] is None
    store.put("junk", b"junk")
    got = store.get_tensor_batch(["a", "none", "b", "junk", "c", "d"])
    assert isinstance(got[1], cenote.NotFound) and isinstance(got[3], ValueError)
    for have, want in zip((got[0], got[2], got[4], got[5]), arrays):
        assert same(have, numpy.asarray(want))
    assert store.stat("a").holds == 1
    del got, have
    assert store.stat("a").holds == 0


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # its import fails
import cenote
store = cenote.connect()
print(type(store.get_tensor("k")).__module__, store.get_tensor("k").tolist())
try:
    store.get_tensor("k", framework="torch")
except TypeError as error:
    print(error)
"""


def test_without_torch(store, node):
    """What torch has put is an array of numpy; torch's tensors are refused with the reason."""
    store.put("k", header(name=b"int32", kind=2))
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "CENOTE_SOCKET": node.socket}, check=True)
    assert done.stdout.splitlines() == [
        "numpy [0, 0]", "key 'k': torch is not installed; use framework='numpy'"]


def test_bfloat16_needs_a_type(store):
    """An object as torch puts it, where numpy has no bfloat16."""
    store.put("k", header(name=b"bfloat16", shape=4, kind=2))
    try:
        import ml_dtypes  # noqa: F401
        assert store.get_tensor("k", framework="numpy").shape == (4,)
    except ImportError:
        with pytest.raises(TypeError, match="bfloat16.*ml_dtypes"):
            store.get_tensor("k", framework="numpy")
