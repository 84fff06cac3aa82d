"""Many keys at once: remove by prefix, list and remove by regular expression."""

import cenote
import pytest

KEYS = ["step/7/logits", "step/7/rewards", "step/17/logits", "run/step/7", "schlüssel", b"raw\xff/7"]


def keys(entries):
    return {entry.key for entry in entries}


@pytest.fixture
def filled(store):
    for key in KEYS:
        store.put(key, b"1")
    return store


def test_remove_prefix(filled):
    with filled.get("step/7/logits") as reader:
        assert filled.remove_prefix("step/7/") == 2
        assert not filled.exists("step/7/logits") and bytes(reader) == b"1"
    assert filled.remove_prefix("step/7/") == 0
    assert filled.remove_prefix(b"raw\xff") == 1
    assert filled.remove_prefix("schl") == 1
    assert keys(filled.list()) == {"step/17/logits", "run/step/7"}
    assert filled.remove_prefix("") == 2 and filled.list() == []


def test_a_put_under_way_ends_removed(store):
    writer = store.create("a/1", 3)
    store.remove_prefix("a/")
    with pytest.raises(cenote.Removed):
        writer.seal()
    assert store.list() == []
    store.put("a/1", b"later")
    assert bytes(store.get("a/1")) == b"later"


@pytest.mark.parametrize("prefix", ["x" * 1025, "a\0b"])
def test_bad_prefixes(filled, prefix):
    with pytest.raises(cenote.BadKey):
        filled.remove_prefix(prefix)
    with pytest.raises(TypeError):
        filled.remove_prefix(7)
    assert len(filled.list()) == len(KEYS)


def test_list_by_regex(filled):
    assert keys(filled.list(regex="^step/[0-9]+/l")) == {"step/7/logits", "step/17/logits"}
    assert keys(filled.list("step/", "7/r|17")) == {"step/7/rewards", "step/17/logits"}
    assert keys(filled.list(regex=b"^raw\xff")) == {b"raw\xff/7"}
    assert keys(filled.list(regex="ü")) == {"schlüssel"}
    assert filled.list(regex="none") == [] and len(filled.list(regex=None)) == len(KEYS)
    assert keys(filled.list(prefix="", regex="7$")) == {"run/step/7", b"raw\xff/7"}


def test_remove_regex(filled):
    assert filled.remove_regex("^step/7/|^run") == 3
    assert filled.remove_regex("^step/7/|^run") == 0
    assert keys(filled.list()) == {"step/17/logits", "schlüssel", b"raw\xff/7"}
    assert filled.remove_regex("") == 3


@pytest.mark.parametrize("pattern, words", [("(", "[Uu]nmatched"), (b"[a", "[Uu]nmatched"), ("a{2,1}", "Invalid content")])
def test_bad_regex(filled, pattern, words):
    for call in (filled.remove_regex, lambda regex: filled.list(regex=regex)):
        with pytest.raises(cenote.BadArgument, match=words) as caught:
            call(pattern)
        assert isinstance(caught.value, ValueError) and caught.value.key is None
    assert len(filled.list()) == len(KEYS)


def test_regex_of_wrong_type(store):
    with pytest.raises(TypeError, match="regular expression"):
        store.list(regex=7)
    with pytest.raises(TypeError, match="regular expression"):
        store.remove_regex(None)
    with pytest.raises(ValueError, match="NUL"):
        store.remove_regex("a\0b")


def test_many(store):
    names = [f"{i % 2}/{i}" for i in range(3000)]
    store.put_batch(names, [b"x"] * len(names))
    assert store.remove_regex("^0/[0-9]*$") == 1500
    assert store.remove_prefix("1/") == 1500
    assert store.list() == []


def test_closed(node):
    store = node.connect()
    store.close()
    for call in (lambda: store.remove_prefix("a"), lambda: store.remove_regex("a"),
                 lambda: store.list(regex="a"), lambda: store.upsert("a", b"")):
        with pytest.raises(ValueError, match="closed"):
            call()
