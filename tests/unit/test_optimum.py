#!/usr/bin/python3
"""Tests of bench/optimum.py: cases worked by hand, and small random logs against a search
through everything that a memory could keep.
"""

import functools
import itertools
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

import optimum  # noqa: E402  pylint: disable=wrong-import-position


def events(text):
    """"put a 4, read a" and so on; a read or remove has the size of the put."""
    sizes, found = {}, []
    for words in (part.split() for part in text.split(",")):
        if words[0] == "put":
            sizes[words[1]] = int(words[2])
        found.append((words[0], words[1], sizes[words[1]]))
    return found


def least(text, memory):
    return optimum.optimum(events(text), memory)


def equal(found, wanted, what=""):
    assert found == wanted, f"{found}, not {wanted} {what}"


def all_fits():
    equal(least("put a 4, put b 6, read a, read b, read a", 10), 0)


def one_byte_too_many():
    # At b's put there is room for 3 of a's 4 bytes; at a's read b loses 1 of its 6.
    equal(least("put a 4, put b 6, read a, read b", 9), 2)
    # b is not read any more.
    equal(least("put a 4, put b 6, read a, remove b", 9), 1)


def the_furthest_goes():
    # c pushes one of them out: b, which is read last. At b's read a is not wanted any more.
    equal(least("put a 4, put b 4, put c 4, read a, read b", 8), 4)
    # The other way round as well.
    equal(least("put a 4, put b 4, put c 4, read b, read a", 8), 4)
    # a is read twice while b waits: still 4.
    equal(least("put a 4, put b 4, put c 4, read a, read a, read b", 8), 4)


def what_is_read_out_goes_first():
    equal(least("put a 4, put b 4, read a, put c 4, read b, read c", 8), 0)
    equal(least("put a 4, put b 4, read a, put c 4, read b, read c, read a", 8), 4)


def what_has_ended_takes_no_room():
    equal(least("put a 4, put b 4, remove a, put c 4, read b, read c", 8), 0)


def a_put_needs_its_room():
    # b is never read, but must be there once: 6 of a's bytes leave.
    equal(least("put a 8, put b 8, read a", 10), 6)


def a_key_comes_back():
    equal(least("put a 4, read a, remove a, put a 2, put b 9, read a", 10), 1)


def larger_than_the_memory():
    # It must be used all the same: nothing else stays, and of itself what there is room for.
    equal(least("put a 4, put b 12, read a, read b", 10), 10)


def in_put_order():
    # Ten objects of 2 put, then read in that order, with room for 5: the last put needs 2, and
    # of what was put before, the first 4 stay, which are read first. Once a is read, j can
    # stay in its place; e to i are read back.
    puts = ", ".join(f"put {name} 2" for name in "abcdefghij")
    reads = ", ".join(f"read {name}" for name in "abcdefghij")
    equal(least(f"{puts}, {reads}", 10), 10)


# ---- against a search through everything -------------------------------------------------


def searched(log, memory):
    """The least over all ways to keep what is there, byte by byte."""

    @functools.lru_cache(maxsize=None)
    def rest(at, kept):
        if at == len(log):
            return 0
        event, key, size = log[at]
        there = dict(kept)
        had = there.pop(key, 0)
        if event == "remove":
            return rest(at + 1, tuple(sorted(there.items())))
        return (size - had if event == "read" else 0) + best(at, there, key, size)

    def best(at, others, key, size):
        names = sorted(others)
        least_rest = None
        for amounts in itertools.product(*(range(others[name] + 1) for name in names)):
            if sum(amounts) > max(memory - size, 0):
                continue
            after = {name: amount for name, amount in zip(names, amounts) if amount}
            for own in range(size + 1):
                # What of it stays is decided at once; to keep more is never forbidden later.
                full = {**after, **({key: own} if own else {})}
                found = rest(at + 1, tuple(sorted(full.items())))
                least_rest = found if least_rest is None else min(least_rest, found)
        return least_rest

    return rest(0, ())


def random_log(rng):
    sizes, log = {}, []
    for number in range(rng.randint(4, 9)):
        choice = rng.random()
        if not sizes or (choice < 0.5 and len(sizes) < 4):
            sizes[str(number)] = rng.randint(1, 3)
            log.append(("put", str(number), sizes[str(number)]))
        else:
            key = rng.choice(sorted(sizes))
            event = "remove" if choice > 0.92 else "read"
            log.append((event, key, sizes[key]))
            if event == "remove":
                del sizes[key]
    return log


def as_good_as_a_search():
    rng = random.Random(7)
    for _ in range(300):
        log, memory = random_log(rng), rng.randint(3, 8)
        equal(optimum.optimum(log, memory), searched(log, memory), f"of {log} in {memory}")


# ---- as a program --------------------------------------------------------------------------


def program(text, *args):
    with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
        log.write(text)
        log.flush()
        return subprocess.run([sys.executable, ROOT / "bench/optimum.py", *args, log.name],
                              capture_output=True, text=True, check=False)


def prints_json():
    # A turning room of 1 at most: 9 bytes are left of 12.
    done = program("0 9 turning - 0\n0 10 put 1 4\n0 11 put 2 6\n0 12 turning - 1\n1 13 read 1 4\n"
                   "1 14 turning - 0\n1 15 read 2 6\n", "--pool", "12", "--reserve", "2")
    equal((done.returncode, done.stdout),
          (0, '{"turning_bytes": 1, "read_bytes": 10, "swapped_bytes": 2, "swapped_bytes_whole": 0}\n'), done.stderr)


def refuses_what_is_no_log():
    for text in ("0 10 put 1\n", "0 10 eat 1 4\n", "0 10 put 1 x\n", "0 10 read 1 4\n",
                 "0 10 put 1 4\n0 11 put 1 4\n", "0 10 put 1 4\n0 11 read 1 5\n"):
        done = program(text, "--pool", "10")
        assert done.returncode == 1 and "optimum.py: " in done.stderr, (text, done)


def main():
    failed = 0
    cases = (all_fits, one_byte_too_many, the_furthest_goes, what_is_read_out_goes_first,
             what_has_ended_takes_no_room, a_put_needs_its_room, a_key_comes_back, larger_than_the_memory, in_put_order, as_good_as_a_search, prints_json,
             refuses_what_is_no_log)
    cases = [case for case in cases if len(sys.argv) < 2 or sys.argv[1] in case.__name__]
    for case in cases:
        try:
            case()
        except AssertionError as why:
            failed += 1
            print(f"FAILED {case.__name__}: {why}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
