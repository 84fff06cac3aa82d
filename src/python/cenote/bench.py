"""Times of the calls from Python, beside a plain copy and beside the same calls from C.

    python3 -m cenote.bench [--runs 5] [--json] [--socket PATH]

Without --socket and $CENOTE_SOCKET it starts a node of its own, with --pool. It looks for
`cenoted` beside this package in a build directory and then in $PATH, and so for what tells the
cost in C: `cenote`, by whose bench a hit is timed, and libcenote.so, whose cenote_put() is called
with the same arrays in turns. What is not found is left out. numpy is needed.

All processes are pinned to one CPU (but not a node that is given). Copy, store and C
alternate; figures are medians of the runs. A hit is get() and release(), many timed together,
with the loop around them; each run times it before and after C's.

Rows are those of a training step: 9 fields of 8,192 tokens each, put, read as eight ranks would,
and removed. `rows_4096_to_1024` is what a row of 4,096 costs to one of 1,024, in the same run; it
is left out where the pool has no room for them.
"""

import argparse
import contextlib
import ctypes
import ctypes.util
import functools
import gc
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import cenote

try:
    import numpy
except ImportError:
    sys.exit("cenote.bench: numpy is needed")

K, M = 1 << 10, 1 << 20
SOURCE = 128 * M  # whence the puts are fed, in turns
RING = 64  # objects of 1 MiB that live at once
HITS = 1000
NODE_DEADLINE_S = 60
C_DEADLINE_S = 60
ROWS = 1024  # and four times as many
FIELDS = 9
RANKS = 8
TOKENS = 8192
AIMS = {"hit_ns_over_c": 400, "put_64m_percent_over_c": 3, "rows_4096_to_1024": 1.2}  # at most


def program(name, given):
    """Where `name` is: as given, beside this package in a build directory, or in $PATH."""
    beside = pathlib.Path(__file__).resolve().parents[3] / name
    return given or (str(beside) if os.access(beside, os.X_OK) else shutil.which(name))


# ---- the node --------------------------------------------------------------

@contextlib.contextmanager
def own_node(cenoted, pool):
    """A daemon for the length of the bench; yields its socket."""
    if not cenoted:
        sys.exit("cenote.bench: no cenoted is found; name it by --cenoted, or a node by --socket")
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="cenote-", dir=parent) as directory:
        reader, writer = os.pipe()
        log = open(os.path.join(directory, "log"), "w+b")
        with log, os.fdopen(reader) as ready:
            try:
                node = subprocess.Popen(
                    [cenoted, f"--pool={pool}", f"--run-dir={directory}", f"--ready-fd={writer}",
                     "--on-exit=free"], pass_fds=[writer], stdout=log, stderr=log)
            finally:
                os.close(writer)
            try:
                if not ready.readline().startswith("ready"):
                    log.seek(0)
                    sys.exit(f"cenote.bench: the node did not start:\n{log.read().decode()}")
                yield os.path.join(directory, "cenote.sock")
            finally:
                node.terminate()
                node.wait(NODE_DEADLINE_S)


def warm(store):
    """Meet every page of the pool once, as in a node that has run for a while."""
    hole = json.loads(store.info("stats"))["pool"]["largest_hole"]
    with contextlib.suppress(cenote.CenoteError):
        store.create("python/warm", hole - hole // 16).abort()


# ---- what is timed ---------------------------------------------------------

class Row:
    """Times of one kind of work, in ns; of each run, the median."""

    def __init__(self, size=0):
        self.size, self.all, self.run, self.medians = size, [], [], []

    def add(self, ns):
        self.run.append(ns)

    def end_run(self):
        self.medians.append(statistics.median(self.run))
        self.all += self.run
        self.run = []
        return self.medians[-1]

    def percentile(self, percent):
        ordered = sorted(self.all)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]

    def shown(self):
        shown = {"count": len(self.all), "p50_us": self.percentile(50) / 1000,
                 "p99_us": self.percentile(99) / 1000}
        if self.size:
            shown["gb_per_s"] = self.size / self.percentile(50)
        return shown


class CStore:
    """cenote_put() of libcenote.so, over a connection of its own; see cenote.h."""

    class Key(ctypes.Structure):
        _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]

    class ConnectOptions(ctypes.Structure):
        _fields_ = [("socket_path", ctypes.c_char_p), ("read_only", ctypes.c_bool),
                    ("timeout_ms", ctypes.c_int64)]

    class PutOptions(ctypes.Structure):
        _fields_ = [("softpin", ctypes.c_bool), ("ttl_ms", ctypes.c_uint64),
                    ("timeout_ms", ctypes.c_int64), ("readers", ctypes.c_uint16),
                    ("durable", ctypes.c_bool), ("replace", ctypes.c_bool),
                    ("replicas", ctypes.c_uint16), ("replicas_required", ctypes.c_bool)]

    def __init__(self, path, socket):
        library = ctypes.CDLL(path)
        self.store = ctypes.c_void_p()
        self.call = library.cenote_put
        self.call.argtypes = [ctypes.c_void_p, self.Key, ctypes.c_void_p, ctypes.c_uint64,
                              ctypes.POINTER(self.PutOptions)]
        self.options = ctypes.byref(self.PutOptions(softpin=True))
        connect = library.cenote_connect
        connect.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(self.ConnectOptions)]
        self.check(connect(ctypes.byref(self.store),
                           self.ConnectOptions(socket_path=os.fsencode(socket))))

    @staticmethod
    def check(error):
        if error:
            sys.exit(f"cenote.bench: libcenote.so answers {error}")

    def put(self, key, array):
        key = key.encode()
        self.check(self.call(self.store, self.Key(key, len(key)), array.ctypes.data, array.nbytes,
                             self.options))


def c_store(socket):
    """None: the library is not found."""
    path = program("libcenote.so", None) or ctypes.util.find_library("cenote")
    return CStore(path, socket) if path else None


class Bench:
    """One run after another of everything; rows by name."""

    def __init__(self, store, in_c, c_hit_ns):
        """`c_hit_ns()`: what a hit takes in C; it and `in_c` are None where C is left out."""
        self.store, self.in_c, self.c_hit_ns = store, in_c, c_hit_ns
        self.rows = {}
        self.source = numpy.random.default_rng(1).integers(0, 255, SOURCE, numpy.uint8)
        self.target = numpy.zeros(64 * M, numpy.uint8)
        self.at = self.number = 0
        for i in range(HITS):
            store.put(f"python/hit/{i:021d}", self.source[i:i + 4 * K], softpin=True)
        self.hit_keys = [f"python/hit/{i:021d}"
                         for i in numpy.random.default_rng(2).permutation(HITS)]

    def next_source(self, size):
        self.at = self.at if self.at + size <= SOURCE else 0
        self.at += size
        return self.source[self.at - size:self.at]

    def timed(self, name, size, call, *arguments, of=1, **options):
        row = self.rows.setdefault(name, Row(size))
        start = time.perf_counter_ns()
        result = call(*arguments, **options)
        row.add((time.perf_counter_ns() - start) / of)
        return result

    def hit_all(self):
        get = self.store.get
        for key in self.hit_keys:
            get(key).release()

    def hits(self):
        for _ in range(10):
            self.timed("hit", 0, self.hit_all, of=HITS)

    def hits_beside_c(self):
        self.hits()
        if self.c_hit_ns:
            self.rows.setdefault("c_hit", Row()).add(self.c_hit_ns())
        self.hits()

    def put(self, key, data):
        self.store.put(key, data, softpin=True)

    def puts(self, name, size, rounds, ring):
        """Around a ring of objects, the oldest removed first; the copy has the same bytes."""
        for _ in range(rounds):
            key = f"python/{name}/{self.number % ring}"
            self.number += 1
            self.store.remove(key)
            data = self.next_source(size)
            self.timed(f"put_{name}", size, self.put, key, data)
            if size >= M:
                self.timed(f"copy_{name}", size, numpy.copyto, self.target[:size],
                           self.next_source(size))
                self.timed(f"get_into_{name}", size, self.store.get_into, key, self.target[:size])
        if not numpy.array_equal(numpy.frombuffer(self.store.get(key), numpy.uint8), data):
            sys.exit(f"cenote.bench: {key} has other bytes than were put")
        as_bytes = data.tobytes()
        for _ in range(max(1, rounds // 4)):
            self.store.remove(key)
            self.timed(f"put_{name}_bytes", size, self.put, key, as_bytes)
        for i in range(ring):
            self.store.remove(f"python/{name}/{i}")

    def puts_beside_c(self, size):
        """Of 64 MiB, where the way to C and back is nothing. Each takes the first turn as often,
        with each half of the source."""
        for i in range(32):
            turns = [("python", self.put), ("c", self.in_c.put)]
            for who, put in turns if i // 2 % 2 else reversed(turns):
                self.store.remove("python/beside")
                data = self.source[i % 2 * size:][:size]
                self.timed(f"put_64m_by_{who}", size, put, "python/beside", data)
        self.store.remove("python/beside")

    @staticmethod
    def all_done(results):
        """Raises what went wrong in a batch."""
        for result in results:
            if isinstance(result, Exception):
                raise result

    def batches(self, name, size, rounds):
        keys = [f"python/batch/{i}" for i in range(64)]
        for _ in range(rounds):
            arrays = [self.next_source(size) for _ in keys]
            done = self.timed(f"put_batch_64x{name}", size, self.store.put_batch, keys, arrays,
                              of=64, softpin=True)
            found = self.timed(f"get_batch_64x{name}", 0, self.store.get_batch, keys, of=64)
            self.all_done([*done, *found])
            for buffer in found:
                buffer.release()
            self.timed(f"remove_batch_64x{name}", 0, self.store.remove_batch, keys, of=64)

    def rollout(self, rows):
        """Seconds that so many rows take; see the head of this file."""
        fields = [numpy.full(TOKENS, i, numpy.int16) for i in range(FIELDS)]
        keys = [[f"python/{row}/{field}" for field in range(FIELDS)] for row in range(rows)]
        started = time.perf_counter()
        for row in keys:
            self.all_done(self.store.put_tensor_batch(row, fields, softpin=True))
        for rank in range(RANKS):
            for row in keys[rank::RANKS]:
                self.all_done(self.store.get_tensor_batch(row))
        for row in keys:
            self.store.remove_batch(row)
        return time.perf_counter() - started

    def rollouts(self):
        """The same number of rows in large and in small steps, these around those."""
        need = 4 * ROWS * FIELDS * (TOKENS * 2 + 512)
        if json.loads(self.store.info("stats"))["pool"]["largest_hole"] < need:
            return
        small = [self.rollout(ROWS), self.rollout(ROWS)]
        large = self.rollout(4 * ROWS)
        small += [self.rollout(ROWS), self.rollout(ROWS)]
        for name, seconds in (("row_of_4096", large), ("row_of_1024", sum(small))):
            self.rows.setdefault(name, Row(FIELDS * TOKENS * 2)).add(seconds * 1e9 / (4 * ROWS))

    def run(self):
        self.hits_beside_c()
        self.puts("4k", 4 * K, 200, 1)
        self.puts("1m", M, 100, RING)
        self.puts("64m", 64 * M, 16, 1)
        if self.in_c:
            self.puts_beside_c(64 * M)
        self.batches("1k", K, 20)
        self.batches("1m", M, 4)
        self.rollouts()
        return {name: row.end_run() for name, row in self.rows.items()}

    def clean(self):
        self.store.remove_batch(self.hit_keys)


def c_hit(tool, socket):
    """What a hit takes in C, in ns."""
    try:
        done = subprocess.run(
            [tool, "bench", "hit", "--json", "--quick", "--runs=1", f"--socket={socket}"],
            stdout=subprocess.PIPE, check=True, timeout=C_DEADLINE_S)
    except subprocess.SubprocessError as error:
        sys.exit(f"cenote.bench: {error}")
    return json.loads(done.stdout)["rows"]["hit_1k"]["p50_us"] * 1000


# ---- the result ------------------------------------------------------------

def figures_of(run):
    """Of one run."""
    figures = {"hit_ns": run["hit"]}
    for size in ("1m", "64m"):
        copy = run[f"copy_{size}"]
        figures[f"ratio_put_{size}"] = copy / run[f"put_{size}"]
        figures[f"ratio_put_{size}_bytes"] = copy / run[f"put_{size}_bytes"]
        figures[f"ratio_get_into_{size}"] = copy / run[f"get_into_{size}"]
    figures["ratio_put_batch_64x1m"] = run["copy_1m"] / run["put_batch_64x1m"]
    if "c_hit" in run:
        figures["c_hit_ns"] = run["c_hit"]
        figures["hit_ns_over_c"] = run["hit"] - run["c_hit"]
    if "put_64m_by_c" in run:
        figures["put_64m_percent_over_c"] = 100 * (run["put_64m_by_python"] / run["put_64m_by_c"] - 1)
    if "row_of_4096" in run:
        figures["rows_4096_to_1024"] = run["row_of_4096"] / run["row_of_1024"]
    return figures


def show(result):
    print(f"python: {result['python']}, runs {result['runs']}")
    print(f"\n{'':24} {'count':>7} {'p50 us':>12} {'p99 us':>12} {'GB/s':>8}")
    for name, row in result["rows"].items():
        rate = f"{row['gb_per_s']:8.2f}" if "gb_per_s" in row else ""
        print(f"{name:24} {row['count']:7} {row['p50_us']:12.3f} {row['p99_us']:12.3f} {rate}")
    print("\nmedian of the runs; ratios are to numpy.copyto()")
    for name, value in result["figures"].items():
        aim = AIMS.get(name)
        verdict = f"   (at most {aim}: {'met' if value <= aim else 'MISSED'})" if aim else ""
        print(f"{name:28} {value:12.4g}{verdict}")


def arguments():
    parser = argparse.ArgumentParser(prog="python3 -m cenote.bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", default=os.environ.get("CENOTE_SOCKET") or None,
                        help="of the node's daemon; $CENOTE_SOCKET if not given")
    parser.add_argument("--pool", default="1G", help="of the node that it starts itself")
    parser.add_argument("--cenoted", help="the daemon's program")
    parser.add_argument("--cenote", help="the command whose bench tells what a hit takes in C")
    parser.add_argument("--no-c", action="store_true", help="leave the comparison with C out")
    parser.add_argument("--runs", type=int, default=5, help="default 5")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs: 1 or more")
    return options


def measure(options, socket):
    tool = None if options.no_c else program("cenote", options.cenote)
    runs = []
    with cenote.connect(socket) as store:
        if not options.socket:
            warm(store)
        bench = Bench(store, None if options.no_c else c_store(socket),
                      functools.partial(c_hit, tool, socket) if tool else None)
        gc.disable()
        for _ in range(options.runs):
            runs.append(figures_of(bench.run()))
        bench.clean()
    figures = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return {"profile": "python", "python": sys.version.split()[0], "runs": options.runs,
            "figures": figures, "rows": {name: row.shown() for name, row in bench.rows.items()}}


def main():
    options = arguments()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before the node starts
    with contextlib.ExitStack() as stack:
        socket = options.socket or stack.enter_context(
            own_node(program("cenoted", options.cenoted), options.pool))
        result = measure(options, socket)
    if options.json:
        print(json.dumps({**{k: v for k, v in result.items() if k != "figures"},
                          **result["figures"]}))
    else:
        show(result)


if __name__ == "__main__":
    main()
