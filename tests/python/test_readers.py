"""readers=N: the object is removed after so many ended reads."""

import pytest
from conftest import until


@pytest.fixture
def counted(store):
    """A store that has put "k" for two readers."""
    store.put("k", b"once each", readers=2)
    return store


def test_removed_after_the_last_reader(counted):
    first, second = counted.get("k"), counted.get("k")
    first.release()
    assert counted.exists("k")
    view = memoryview(second)
    del second
    assert counted.exists("k")  # a view still reads
    view.release()
    until(lambda: not counted.exists("k"), "the second reader's end removes it")


def test_get_into_counts_as_a_read(counted):
    assert counted.get_into("k", bytearray(100)) == 9
    counted.get_into("k", bytearray(100))
    until(lambda: not counted.exists("k"), "the second copy removes it")
