"""Nothing stays behind of a call, whether it works or fails."""

import gc
import sys

import cenote
import numpy
import pytest


def fails(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError("it did not fail")


def put_and_remove(store, put):
    put()
    assert store.remove("new")


def writer_with_an_exception(store):
    with store.create("new", 10) as writer:
        writer[:] = bytes(10)
        raise ZeroDivisionError


ARRAY = numpy.arange(100)
CALLS = {
    "get": lambda s: s.get("k"),
    "get and view": lambda s: numpy.frombuffer(s.get("k"), numpy.uint8),
    "with": lambda s: s.get("k").__enter__().__exit__(None, None, None),
    "not found": lambda s: fails(KeyError, lambda: s.get("none")),
    "timeout": lambda s: fails(TimeoutError, lambda: s.get("none", wait=True, timeout=0.001)),
    "bad key": lambda s: fails(ValueError, lambda: s.get("")),
    "bad argument": lambda s: fails(TypeError, lambda: s.put("k", b"1", nothing=1)),
    "put": lambda s: put_and_remove(s, lambda: s.put("new", ARRAY)),
    "put parts": lambda s: put_and_remove(s, lambda: s.put_parts("new", [b"1", ARRAY, ARRAY])),
    "exists already": lambda s: fails(cenote.Exists, lambda: s.put("k", ARRAY)),
    "create": lambda s: put_and_remove(s, lambda: s.create("new", 10).seal()),
    "create and drop": lambda s: s.create("new", 10),
    "create and raise": lambda s: fails(ZeroDivisionError, lambda: writer_with_an_exception(s)),
    "get_into": lambda s: s.get_into("k", bytearray(5000)),
    "stat": lambda s: s.stat("k"),
    "list": lambda s: s.list(),
    "touch": lambda s: s.touch("k"),
    "put_batch": lambda s: s.put_batch(["k", ""], [b"1", [b"1", b"2"]]),
    "put_batch that fails": lambda s: fails(TypeError, lambda: s.put_batch(["a", "b"], [b"1", [b"2", 3]])),
    "get_batch": lambda s: s.get_batch(["k", "none", "k"]),
    "get_into_batch": lambda s: s.get_into_batch(["k", "none"], [bytearray(5000), bytearray(1)]),
    "exists_batch": lambda s: s.exists_batch(["k", "none", ""]),
    "stat_batch": lambda s: s.stat_batch(["k", "none", ""]),
    "remove_batch": lambda s: s.remove_batch(["none", ""]),
    "create_batch": lambda s: s.create_batch(["new", "k"], [10, 10]),
    "tensor": lambda s: put_and_remove(s, lambda: (s.put_tensor("new", ARRAY), s.get_tensor("new"))),
    "no tensor": lambda s: fails(ValueError, lambda: s.get_tensor("k")),
    "tensors": lambda s: s.get_tensor_batch(["k", "none"]),
    "info": lambda s: s.info("check"),
    "pickle": lambda s: s.__reduce__(),
    "fault": lambda s: (cenote.get_fault_status("none"), s.get_fault_status_local_master("none")),
    "connect": lambda s: cenote.connect(s.socket).close(),
    "connect in vain": lambda s: fails(cenote.Unavailable, lambda: cenote.connect("/none", timeout=0.001)),
}


@pytest.mark.skipif(not sys.getallocatedblocks(), reason="this interpreter's allocator does not count")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_no_block_is_left(store, call):
    store.put("k", bytes(5000))
    left = []
    for _ in range(6):  # the first rounds fill caches
        for _ in range(50):
            call(store)
        gc.collect()
        left.append(sys.getallocatedblocks())
    assert min(b - a for a, b in zip(left[1:], left[2:])) < 10, left
