"""How long bytes stay: as long as anything can look at them."""

import gc

import cenote
import numpy
import pytest
from conftest import stats, until, used

NUMBERS = numpy.arange(1024, dtype=numpy.int32)


@pytest.fixture
def full(store):
    """A store with NUMBERS under "k"."""
    store.put("k", NUMBERS)
    return store


def holds(store):
    return sum(client["holds"] for client in stats(store)["clients"])


def test_release_ends_the_hold(full):
    buffer = full.get("k")
    assert holds(full) == 1 and not buffer.released
    buffer.release()
    assert holds(full) == 0 and buffer.released
    buffer.release()
    for view in (memoryview, bytes, lambda b: b[0], numpy.frombuffer):
        with pytest.raises(ValueError, match="released"):
            view(buffer)
    with pytest.raises(ValueError):
        buffer.__enter__()


def test_the_last_reference_ends_the_hold(full):
    buffers = [full.get("k") for _ in range(10)]
    assert holds(full) == 10
    del buffers[3:]
    assert holds(full) == 3
    buffers.clear()
    assert holds(full) == 0


VIEWS = {
    "memoryview": memoryview,
    "slice": lambda buffer: buffer[8:],
    "view of a view": lambda buffer: memoryview(memoryview(buffer))[4:].cast("i"),
    "frombuffer": lambda buffer: numpy.frombuffer(buffer, numpy.int32),
    "array of an array": lambda buffer: numpy.frombuffer(buffer, numpy.int32).reshape(32, 32).T[3:],
    "asarray": lambda buffer: numpy.asarray(memoryview(buffer)),
    "ndarray": lambda buffer: numpy.ndarray(1024, numpy.int32, memoryview(buffer)),
}


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_keeps_the_bytes(full, make):
    buffer = full.get("k")
    view = make(buffer)
    with pytest.raises(BufferError, match="views live"):
        buffer.release()
    before = bytes(view)
    del buffer
    gc.collect()
    full.remove("k")
    full.put("k", bytes(4096))  # would take the place, were it free
    assert bytes(view) == before and any(before)
    assert holds(full) == 1
    del view
    assert holds(full) == 0


def test_release_after_the_views(full):
    buffer = full.get("k")
    view, array = memoryview(buffer), numpy.frombuffer(buffer, numpy.int32)
    view.release()
    with pytest.raises(BufferError):
        buffer.release()
    del array
    buffer.release()
    assert holds(full) == 0


def test_a_reference_to_the_exporter_keeps_the_bytes(full):
    """As torch.frombuffer() keeps it: the buffer itself is given back at once."""
    buffer = full.get("k")
    exporter = memoryview(buffer).obj
    with pytest.raises(BufferError):
        buffer.release()
    del buffer
    assert holds(full) == 1
    assert (numpy.frombuffer(exporter, numpy.int32) == NUMBERS).all()
    del exporter
    assert holds(full) == 0


def test_block_ends_the_hold(full):
    with full.get("k") as buffer:
        assert numpy.frombuffer(buffer, numpy.int32).sum() == NUMBERS.sum()
        assert holds(full) == 1
    assert holds(full) == 0 and buffer.released


def test_block_waits_for_the_last_view(full):
    with full.get("k") as buffer:
        array = numpy.frombuffer(buffer, numpy.int32)
    assert holds(full) == 1 and not buffer.released
    with pytest.raises(ValueError):
        memoryview(buffer)
    assert (array == NUMBERS).all()
    del array
    assert holds(full) == 0 and buffer.released


def test_block_keeps_the_exception(full):
    with pytest.raises(ZeroDivisionError):
        with full.get("k") as buffer:
            array = numpy.frombuffer(buffer, numpy.int32)
            1 / 0
    assert (array == NUMBERS).all()


def test_bytes_are_read_only(full):
    buffer = full.get("k")
    with pytest.raises(TypeError):
        buffer[0] = 1
    with pytest.raises(TypeError):
        memoryview(buffer)[0] = 1
    assert not numpy.frombuffer(buffer, numpy.int32).flags.writeable
    with pytest.raises((BufferError, TypeError)):
        full.get_into("k", buffer)


def test_index_and_slice(full):
    full.put("letters", b"abcdef")
    buffer = full.get("letters")
    assert buffer[1] == ord("b") and buffer[-1] == ord("f")
    assert bytes(buffer[2:4]) == b"cd" and bytes(buffer[::-2]) == b"fdb"
    with pytest.raises(IndexError):
        buffer[6]


def test_empty_object(store):
    store.put("k", b"")
    with store.get("k") as buffer:
        assert bytes(buffer) == b"" and len(buffer) == 0 and not buffer[:]
        assert holds(store) == 1
    assert holds(store) == 0


def test_removed_bytes_are_free_after_the_last_view(full):
    base = used(full)
    full.put("big", bytes(8 << 20))
    array = numpy.frombuffer(full.get("big"), numpy.uint8)
    full.remove("big")
    assert used(full) >= base + (8 << 20)
    del array
    until(lambda: used(full) == base, "the bytes are free")


def test_writer_refuses_to_seal_under_a_view(store):
    writer = store.create("k", 8)
    array = numpy.frombuffer(writer, numpy.uint8)
    array[:] = 7
    for end in (writer.seal, writer.abort):
        with pytest.raises(BufferError, match="views live"):
            end()
    del array
    writer.seal()
    assert bytes(store.get("k")) == b"\7" * 8


def test_block_with_a_view_left_puts_nothing(store):
    with pytest.raises(BufferError, match="views live"):
        with store.create("k", 8) as writer:
            array = numpy.frombuffer(writer, numpy.uint8)
    assert not store.exists("k")
    store.put("k", b"free", timeout=1)
    with pytest.raises(ValueError):
        memoryview(array.base.obj)


def test_views_of_a_writer(store):
    source = numpy.arange(100, dtype=numpy.float64)
    with store.create("k", source.nbytes) as writer:
        numpy.frombuffer(writer, numpy.float64)[:] = source
        memoryview(writer).cast("d")[5] = -1.0
        assert writer[:8] == bytes(8)
    assert numpy.frombuffer(store.get("k"), numpy.float64)[5] == -1.0


def test_not_made_by_hand():
    for kind in (cenote.Buffer, cenote.Writer, cenote.Store):
        with pytest.raises(TypeError):
            kind()
