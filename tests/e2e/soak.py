#!/usr/bin/python3
"""A long run with faults: three nodes, each with a disk and a pool too small for all, 8 clients a
node, one random fault every 5 s. One node's objects leave its pool for the disk first, another's
for the other nodes, the third's for what was faster, so that they move all the time, which is
counted. Every read is compared. `soak.py [--minutes N] [--seed N]`; `make soak MINUTES=N` runs it;
$CENOTE_DAEMONS=build-debug has sanitized daemons.

Each client has keys of its own and knows what must be under them: it puts on the node of its own,
reads, replaces and removes on any. Since something is broken most of the time a call may fail as the
table of faults has it (a link cut, the directory away, a daemon killed), which makes that key's
state unknown. A wrong byte, or an acknowledged object that is NOT_FOUND or LOST, ends the run, with
all that was done to the key. One that was removed or replaced and is still seen is counted as stale:
a node that is cut off does not know better, and one nearly always is. In the end none may be.

Faults: a daemon killed and started on its pool, a daemon stopped for a while, the directory killed
and started empty, emptied, a link cut both ways or one way, a node drained for a while. In the end
all is healed; everything must be readable on every node and is removed, the pools must be empty, and
the daemons may have neither more descriptors nor much more memory than after the first third.
"""

import argparse
import collections
import math
import os
import random
import sys
import time

from cluster import Client, Cluster, Failure, Network, Node, Redis, cenote, check, expect, main, pattern, put, role, until

CLIENTS = 8  # of each node
KEYS = 24  # of each client
LARGEST = 8 << 20
POOL, DISK = "96M", "2G"
TWICE = 0.25  # of the puts ask for two keepers
FAULT_S = 5  # from one fault to the next
BROKEN_S = (0.5, 3.0)  # how long one lasts
TELL_S = 30
CALL_S = 20  # of a client's call
MORE_MEMORY, SPARE_MEMORY = 1.5, 64 << 20  # of a daemon's own, beside the pool
MORE_FDS = 16


def is_absent(store, key):
    try:
        store.get(key, timeout=CALL_S).release()
    except cenote.NotFound:
        return True
    return False


class Soaked:
    """What a client knows of its keys."""

    def __init__(self, me, number, seed):
        self.me, self.number = me, number
        self.dice = random.Random(seed * 1000 + number)
        self.known = {}  # key: (version, size) of what must be there, None: nothing; not in it: unknown
        self.version = 0
        self.put = collections.defaultdict(dict)  # key: version: size, of all that were ever put
        self.ends = collections.Counter()
        self.moved = 0
        self.done = collections.defaultdict(lambda: collections.deque(maxlen=12))  # key: what, for a failure's text

    def store(self):
        return self.dice.choice(self.me.stores)

    def note(self, what, key, store, began, end):
        """The node by its place in the client's list: 0 is its own."""
        self.done[key].append(f"{began:.3f} to {time.monotonic():.3f} {what} at {self.me.stores.index(store)}: {end}")

    def fail(self, key, error):
        """With all that may tell why."""
        for store in self.me.stores * 2:
            began = time.monotonic()
            try:
                store.get(key, timeout=CALL_S).release()
                self.note("get again", key, store, began, "there")
            except cenote.CenoteError as again:
                self.note("get again", key, store, began, again)
        raise Failure("\n".join([f"{key}, known as {self.known.get(key)}: {error!r}", *self.done[key]]))

    def noted(self, what, key, store, call, *args, **kwargs):
        began, end = time.monotonic(), None
        try:
            answer = call(*args, **kwargs)
            end = f"done {answer}"
        except cenote.CenoteError as error:
            end = error
            raise
        finally:
            self.note(f"{what} {args[2:]} {kwargs}", key, store, began, end)
        self.ends[what] += 1
        return True if answer is None else answer

    def call(self, what, key, store, call, *args, **kwargs):
        """What it returned; None: it failed as it may, and nobody knows."""
        try:
            return self.noted(what, key, store, call, *args, **kwargs)
        except cenote.NotFound:
            self.ends[f"{what} NotFound"] += 1
            if what == "put":
                self.fail(key, "a put is told that there is nothing")
            raise
        except (cenote.Exists, cenote.Removed) as error:
            # By what was removed elsewhere, and by a removal that nobody had answered.
            self.ends[f"{what} {type(error).__name__} of {'known' if key in self.known else 'unknown'}"] += 1
            self.known.pop(key, None)
            return None
        except (cenote.Unavailable, cenote.Timeout, cenote.LeaseExpired, cenote.TransferFailed, cenote.NoSpace) as error:
            self.ends[f"{what} {type(error).__name__}"] += 1
            if isinstance(error, cenote.Timeout):
                print(self.done[key][-1], file=sys.stderr, flush=True)
            if what != "get":
                self.known.pop(key, None)
            return None
        except cenote.CenoteError as error:
            return self.fail(key, error)

    def one_put(self, key):
        self.version += 1
        size = int(2 ** self.dice.uniform(0, LARGEST.bit_length() - 1))
        self.put[key][self.version] = size
        replace = key not in self.known or self.known[key] is not None
        replicas = 2 if self.dice.random() < TWICE else 1
        if self.call("put", key, self.me.store, put, self.me.store, key, self.version, size, softpin=True,
                     replace=replace, replicas=replicas):
            self.known[key] = (self.version, size)
            self.moved += size

    def one_get(self, key):
        state, store = self.known.get(key), self.store()
        try:
            buffer = self.call("get", key, store, store.get, key, timeout=CALL_S)
        except cenote.NotFound as error:
            if state:
                self.fail(key, error)
            return
        if buffer is None:
            return
        with buffer:
            version = self.version_of(key, memoryview(buffer))
        self.ends["stale"] += state is None or version != state[0]
        self.moved += self.put[key][version]

    def version_of(self, key, data):
        for version, size in self.put[key].items():
            if size == len(data) and data == pattern(key, version, size):
                return version
        raise Failure(f"{key}: {len(data)} bytes that were never put")

    def one_remove(self, key):
        was, store = self.known.get(key), self.store()
        found = self.call("remove", key, store, store.remove, key)
        if found is None:
            return
        if was and not found:
            self.fail(key, "a removal is told that there was nothing")
        self.known[key] = None

    def step(self):
        key = f"soak/{self.number}/{self.dice.randrange(KEYS)}"
        kind = self.dice.random()
        if kind < 0.25 or key not in self.known:
            self.one_put(key)
        elif kind < 0.85:
            self.one_get(key)
        else:
            self.one_remove(key)

    def last_look(self):
        """All is well: what must be there is, on every node, and then is removed. No node has anything else."""
        for key in [f"soak/{self.number}/{i}" for i in range(KEYS)]:
            state = self.known.get(key)
            if state is not None:
                for store in self.me.stores:
                    check(store.get(key, timeout=CALL_S), key, *state)
            if state is not None or key not in self.known:
                found = self.store().remove(key)
                expect(found or state is None, f"{key} is lost")
            for store in self.me.stores:
                until(lambda s=store, k=key: is_absent(s, k), f"{key} is removed")


@role
def soaker(me, number, seed):
    soaked = Soaked(me, number, seed)
    told = time.monotonic()
    while not me.was_told():
        soaked.step()
        if time.monotonic() - told > TELL_S:
            told = time.monotonic()
            me.say({"ends": soaked.ends, "moved": soaked.moved})
    me.hear()
    me.say({"ends": soaked.ends, "moved": soaked.moved, "last": True})
    me.hear()  # all others have ended, too
    soaked.last_look()
    me.say("done")


class Moves:
    """What the nodes moved so far, of all their lives."""

    NAMES = {"saves": "written out", "loads": "read back", "handed": "handed over", "kept": "taken over",
             "fetches": "fetched", "spread": "put on a second node", "rebuilt": "rebuilt"}

    def __init__(self, cluster):
        self.cluster = cluster
        self.ended = collections.Counter()

    def of(self, node):
        stats = node.stats()
        both = stats["counters"] | stats["cluster"]
        return collections.Counter({name: both[name] for name in self.NAMES})

    def ends(self, node):
        """It is about to be killed, and counts from 0 in its next life."""
        self.ended += self.of(node)

    def all(self):
        return sum((self.of(node) for node in self.cluster if node.lives()), self.ended)

    def __str__(self):
        moved = self.all()
        return ", ".join(f"{moved[name]} {text}" for name, text in self.NAMES.items())


class Faults:
    """Begun one at a time, and ended."""

    def __init__(self, t, cluster, network, dice, moves):
        self.t, self.cluster, self.network, self.dice, self.moves = t, cluster, network, dice, moves
        self.done = collections.Counter()
        self.log = t.directory / "faults"
        t.logs.append(("faults", self.log))

    def note(self, *what):
        with open(self.log, "a", encoding="utf-8") as log:
            print(f"{time.monotonic():.3f}", *what, file=log)

    def some_nodes(self, count):
        nodes = self.dice.sample(list(self.cluster), count)
        self.note("of", *(node.name for node in nodes))
        return nodes

    # What a node has not announced yet to a directory that has forgotten counts as free once the node was away for 3 s,
    # says the manual, and a sanitized daemon may need more than that to be back.
    def all_is_announced(self):
        for node in self.cluster:
            until(node.directory_is_complete, f"{node.name} has announced what it has")

    def daemon_killed(self):
        node, = self.some_nodes(1)
        self.moves.ends(node)
        self.all_is_announced()
        node.kill()
        return node.start

    def daemon_stopped(self):
        node, = self.some_nodes(1)
        node.suspend()
        return node.resume

    def directory_killed(self):
        self.all_is_announced()
        self.cluster.directory.kill()
        return self.cluster.directory.start

    def directory_emptied(self):
        self.all_is_announced()
        self.cluster.directory.ask("FLUSHALL")
        return lambda: None

    def link_cut(self):
        a, b = self.some_nodes(2)
        self.network.cut(a.host, b.host)
        return self.network.heal

    def link_cut_one_way(self):
        a, b = self.some_nodes(2)
        self.network.cut_one_way(a.host, b.host)
        return self.network.heal

    def node_drained(self):
        node, = self.some_nodes(1)
        node.drain()
        return lambda: node.drain(end=True)

    def one(self):
        begin = self.dice.choice([self.daemon_killed, self.daemon_stopped, self.directory_killed,
                                  self.directory_emptied, self.link_cut, self.link_cut_one_way, self.node_drained])
        self.done[begin.__name__] += 1
        self.note(begin.__name__)
        end = begin()
        time.sleep(self.dice.uniform(*BROKEN_S))
        self.note("to end")
        end()
        self.note("ended")


def own(node):
    """Bytes of memory that the daemon has beside the pool, and its descriptors."""
    pid = node.process.pid
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        memory = next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))
    return memory, len(os.listdir(f"/proc/{pid}/fd"))


def tell(t, said, cluster, began, faults):
    ends, moved = collections.Counter(), 0
    for one in said.values():
        ends.update(one["ends"])
        moved += one["moved"]
    took = time.monotonic() - began
    t.note(f"{took / 60:.1f} min, {sum(faults.done.values())} faults: " +
           ", ".join(f"{ends[what]} {what}" for what in sorted(ends)) +
           f"; {moved / took / 1e6:.0f} MB/s; objects: {faults.moves}; " +
           ", ".join(f"{n.name} {own(n)[0] >> 20} MiB, {own(n)[1]} fds" for n in cluster if n.lives()))


def heard(clients, said):
    for one in clients:
        while one.has_said():
            said[one.name] = one.hear()


def three_nodes_with_a_fault_every_five_seconds(t):
    t.takes(MINUTES * 60 + 900)
    dice = random.Random(SEED)
    network = Network(t)
    redis = Redis(t, address=network.hub.address, host=network.hub)
    cluster = Cluster(t, 0, directory=redis)
    for name, first in (("a", "disk"), ("b", "peer"), ("c", "auto")):
        host = network.host(name)
        cluster.nodes.append(Node(t, name, *cluster.common(host), "--pool", POOL, "--disk", str(t.directory / f"{name}-disk"),
                                  "--disk-size", DISK, "--swapout-first", first, host=host).start())
    cluster.settle()
    moves = Moves(cluster)
    faults = Faults(t, cluster, network, dice, moves)
    nodes = list(cluster)
    clients = [Client(t, nodes[i % 3:] + nodes[:i % 3], "soaker", i, SEED) for i in range(3 * CLIENTS)]
    began, told, said, first = time.monotonic(), time.monotonic(), {}, None
    while time.monotonic() - began < MINUTES * 60:
        until_next = time.monotonic() + FAULT_S
        faults.one()
        while time.monotonic() < until_next:
            heard(clients, said)
            time.sleep(0.1)
        for one in clients:
            expect(one.process.lives(), f"{one.name} has ended")
        if time.monotonic() - told > TELL_S:
            told = time.monotonic()
            tell(t, said, cluster, began, faults)
        if first is None and time.monotonic() - began > MINUTES * 20:
            first = {node.name: own(node) for node in cluster}
    cluster.settle()
    for one in clients:
        one.say("end")
    for one in clients:
        while "last" not in said.setdefault(one.name, {}):
            said[one.name] = one.hear(CALL_S * 6)
    tell(t, said, cluster, began, faults)
    for one in clients:
        one.say("look")
    for one in clients:
        one.heard("done", CALL_S * KEYS)
        one.end()
    for node in cluster:
        until(lambda n=node: n.stats()["pool"]["objects"] == 0, f"{node.name} is empty")
        memory, fds = own(node)
        expect(memory < MORE_MEMORY * first[node.name][0] + SPARE_MEMORY,
               f"{node.name} had {first[node.name][0]} bytes of its own, and has {memory}")
        expect(fds <= first[node.name][1] + MORE_FDS, f"{node.name} had {first[node.name][1]} descriptors, and has {fds}")
    moved = moves.all()
    for name, text in Moves.NAMES.items():
        expect(moved[name] > 0, f"no object was {text}")
    t.note(f"objects: {moves}")
    t.note("faults: " + ", ".join(f"{count} {what}" for what, count in sorted(faults.done.items())))


def minutes(text):
    count = float(text)
    if not 0 < count < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: a number above 0 is needed")
    return count


def arguments():
    if "--role" in sys.argv:
        return 0, 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=minutes, default=2, help="how long (2)")
    parser.add_argument("--seed", type=int, default=1, help="of sizes, keys and faults (1)")
    chosen = parser.parse_args()
    del sys.argv[1:]
    return chosen.minutes, chosen.seed


MINUTES, SEED = arguments()
# Else a sanitized daemon keeps up to 256 MiB of what was freed, and its own memory tells nothing.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"
main(three_nodes_with_a_fault_every_five_seconds)
