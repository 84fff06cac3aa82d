"""The load: ranks, which are processes on all nodes, put softpin objects; ranks on other nodes
read them, one after another, check every byte, and the last of them removes.

An object travels with a *letter* from rank to rank, over the lane that its owner chose:

    owner --put--> first reader --get--> second reader --get, remove--> owner --done

Each removal is followed by a get on either side, which must find nothing. A lane carries one
object at a time, so that what a fault holds up does not hold up the rest. A call that fails is
made again later, but for a put, which takes another key. Every call is one record: who, what,
how it ended, how long it took; the test judges them afterwards (Verdict), and measures.

Units: seconds of CLOCK_MONOTONIC, which all processes share.
"""

import dataclasses
import fcntl
import json
import os
import random
import selectors
import sys
import time

from .case import Failure, expect, until
from .client import Client, role
from .pattern import check, put
from .programs import cenote

CALL_S = 6  # deadline of each call: a little more than what the directory may take to give up
LATE_S = 7  # by so much it may be late: all of this shares a machine with others
RETRY_S = 0.25
PUTS_A_SECOND = 40  # of each rank
PIPE_SIZE = 1 << 20  # for all letters that may be under way to one rank


# ---- a rank ------------------------------------------------------------------


class Inbox:
    """Letters of other ranks. All that are under way fit into the pipe, so that no one waits."""

    def __init__(self, paths, rank):
        self.file = os.open(paths[rank], os.O_RDWR | os.O_NONBLOCK)
        self.out = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in paths]
        self.rest = b""

    def letters(self):
        try:
            self.rest += os.read(self.file, 1 << 16)
        except BlockingIOError:
            return []
        *lines, self.rest = self.rest.split(b"\n")
        return [json.loads(line) for line in lines]

    def send(self, rank, letter):
        line = json.dumps(letter).encode() + b"\n"
        if os.write(self.out[rank], line) != len(line):
            raise Failure("a letter did not fit")


class Rank:
    def __init__(self, me, order):
        self.me, self.store = me, me.store
        self.rank, self.node, self.nodes = order["rank"], order["node"], order["nodes"]
        self.inbox = Inbox(order["inboxes"], self.rank)
        self.log = open(order["log"], "w", encoding="utf-8", buffering=1)
        self.random = random.Random(order["seed"] * 1000 + self.rank)
        self.options = order["options"]
        self.sizes = order["sizes"]
        self.pause = 1 / order["rate"]
        self.lag = order["lag"]
        self.serial = 0
        self.unread = []  # letters of objects that are to be read later
        self.later = []  # (when, letter): what failed
        self.lanes = [(first, second) for first, node in enumerate(self.nodes) if node != self.node
                      for second in range(len(self.nodes)) if second not in (first, self.rank)]
        self.lanes = self.lanes * order["depth"]
        self.free = list(self.lanes)

    def call(self, what, letter, call):
        """Make a call and record it. True: it went well, or as it must."""
        at = time.monotonic()
        try:
            end = call() or "ok"
        except cenote.CenoteError as error:
            end = type(error).__name__
        except Failure as error:
            end = f"WRONG {error}"
        took = time.monotonic() - at
        self.log.write(json.dumps([at, what, self.node, letter["keeper"], letter["key"], end, took,
                                   letter.get("put_took", 0), self.rank, letter.get("remover", "")]) + "\n")
        return end, took

    def size(self):
        kind = self.random.random()
        for share, low, high in self.sizes:
            if kind < share:
                return self.random.randint(low, high)
            kind -= share
        raise Failure("the shares of the sizes are not 1")

    def put(self, lane):
        self.serial += 1
        letter = {"key": f"s/{self.rank}/{self.serial}", "size": self.size(), "owner": self.rank,
                  "keeper": self.node, "lane": lane, "state": "first", "version": self.serial}
        end, took = self.call("put", letter, lambda: put(
            self.store, letter["key"], letter["version"], letter["size"], softpin=True, timeout=CALL_S,
            **self.options))
        if end == "ok":
            letter["put_took"] = took
            self.inbox.send(lane[0], letter)
        else:
            self.free.append(lane)

    def get(self, letter):
        check(self.store.get(letter["key"], timeout=CALL_S), letter["key"], letter["version"], letter["size"])

    def remove(self, letter):
        """It is there, unless an earlier call, which had no answer, has removed it."""
        again = letter.get("remover")
        letter["remover"] = self.node
        if not self.store.remove(letter["key"]) and not again:
            return "ABSENT"
        return None

    def seek(self, letter):
        """What was removed must not be found."""
        try:
            self.store.get(letter["key"], timeout=CALL_S).release()
        except cenote.NotFound:
            return "ok"
        return "BACK"

    def step(self, letter):
        """Do what its state asks for; what fails is for later."""
        state = letter["state"]
        act = {"first": self.get, "second": self.get, "remove": self.remove, "gone": self.seek,
               "done": self.seek}[state]
        end, _ = self.call(state, letter, lambda: act(letter))
        if end not in ("ok", "ABSENT"):
            # One that was found again is sought once more: the record tells, whatever comes.
            self.later.append((time.monotonic() + RETRY_S, letter))
            return
        if state == "first":
            self.inbox.send(letter["lane"][1], letter | {"state": "second", "due": False})
        elif state == "second":
            self.step(letter | {"state": "remove"})
        elif state == "remove":
            self.step(letter | {"state": "gone"})
        elif state == "gone":
            self.inbox.send(letter["owner"], letter | {"state": "done"})
        else:
            self.free.append(letter["lane"])

    def due(self, now):
        """Letters whose time has come."""
        ready = [letter for when, letter in self.later if when <= now]
        self.later = [(when, letter) for when, letter in self.later if when > now]
        return ready

    def run(self):
        next_put, puts, done = time.monotonic(), True, False
        with selectors.DefaultSelector() as selector:
            selector.register(self.inbox.file, selectors.EVENT_READ)
            selector.register(sys.stdin, selectors.EVENT_READ)
            while True:
                for letter in self.inbox.letters() + self.due(time.monotonic()):
                    if letter["state"] in ("first", "second") and not letter.get("due"):
                        self.unread.append(letter | {"due": True})
                    else:
                        self.step(letter)
                while len(self.unread) > (self.lag if puts else 0):
                    self.step(self.unread.pop(0))
                now = time.monotonic()
                if puts and self.free and now >= next_put:
                    next_put = max(next_put + self.pause, now - 10 * self.pause)
                    self.put(self.free.pop(self.random.randrange(len(self.free))))
                if not puts and not done and len(self.free) == len(self.lanes):
                    done = True
                    self.me.say("drained")
                times = [when for when, _ in self.later] + ([next_put] if puts and self.free else [])
                wait = max(min(times) - time.monotonic(), 0) if times else None
                if any(key.fileobj is sys.stdin for key, _ in selector.select(wait)):
                    if self.me.hear() == "end":
                        return
                    puts = False


@role
def station_rank(me, order):
    Rank(me, order).run()


# ---- the whole ---------------------------------------------------------------

# Shares, and bytes from and to: as in the field, but for the large ones, which are scaled.
SIZES = [(0.44, 256, 2048), (0.42, 2048, 4096), (0.06, 8192, 16384), (0.08, 256 << 10, 1 << 20)]


@dataclasses.dataclass
class Record:
    at: float
    what: str  # put, first, second, remove, gone, done
    node: str  # of who called
    keeper: str
    key: str
    end: str  # "ok"; "ABSENT": removed, and was not there; "BACK"; "WRONG ..."; or an error's name
    took: float
    put_took: float
    rank: int
    remover: str  # the node on which it was removed; "": it was not

    @property
    def over(self):
        return self.at + self.took

    def __str__(self):
        return (f"{self.what} of {self.key} (kept by {self.keeper}) on {self.node}: {self.end} after "
                f"{self.took * 1000:.1f} ms")


class Station:
    """Two ranks on each node, or as many as said, at work from now on."""

    def __init__(self, t, nodes, ranks=2, seed=1, sizes=None, rate=PUTS_A_SECOND, depth=1, lag=0, **options):
        """`depth`: objects under way on each lane; `lag`: so many wait at each rank to be read;
        the rest are options of the puts."""
        self.t = t
        directory = t.path("station")
        homes = [node for node in nodes for _ in range(ranks)]
        self.inboxes = [str(directory / f"inbox-{i}") for i in range(len(homes))]
        self.logs = [directory / f"log-{i}" for i in range(len(homes))]
        for path, log in zip(self.inboxes, self.logs):
            os.mkfifo(path)
            log.touch()
        self.offsets = [0] * len(homes)
        self.rests = [""] * len(homes)
        self.records = []
        # Held open, so that a letter to one that has not opened its own yet stays.
        for path in self.inboxes:
            file = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
            t.later(os.close, file)
        self.ranks = [Client(t, home, "station_rank", {
            "rank": i, "node": home.name, "nodes": [h.name for h in homes], "inboxes": self.inboxes,
            "log": str(self.logs[i]), "seed": seed, "sizes": sizes or SIZES, "rate": rate, "depth": depth, "lag": lag,
            "options": options}) for i, home in enumerate(homes)]

    def read(self, ended=False):
        """All records so far."""
        for i, path in enumerate(self.logs):
            with open(path, encoding="utf-8") as file:
                file.seek(self.offsets[i])
                text = self.rests[i] + file.read()
                self.offsets[i] = file.tell()
            *lines, self.rests[i] = text.split("\n")
            self.records += [Record(*json.loads(line)) for line in lines]
        for rank in self.ranks:
            expect(ended or rank.process.lives(), f"{rank.name} has ended")
        return self.records

    def samples(self, nodes, since, till=None):
        """Seconds that a put and the first get took, of objects that lie on these nodes alone."""
        return [r.took + r.put_took for r in self.read()
                if r.what == "first" and r.end == "ok" and r.node in nodes and r.keeper in nodes and
                r.at - r.put_took >= since and (till is None or r.over <= till)]

    def await_samples(self, count, nodes, since, seconds=60):
        """Until so many of them there are, which are returned."""
        what = f"{count} objects put and read on {' and '.join(nodes)}"
        until(lambda: len(self.samples(nodes, since)) >= count,
              lambda: f"{what}, only {len(self.samples(nodes, since))}", seconds)
        return self.samples(nodes, since)

    def drain(self, seconds=60):
        """No new puts; until every object was read and removed. Returns all records."""
        for rank in self.ranks:
            rank.say("stop")
        end = time.monotonic() + seconds
        for rank in self.ranks:
            rank.heard("drained", max(end - time.monotonic(), 1))
        for rank in self.ranks:
            rank.say("end")
        for rank in self.ranks:
            rank.end()
        return self.read(ended=True)


def percentile(samples, percent):
    return sorted(samples)[min(int(len(samples) * percent / 100), len(samples) - 1)]


# ---- the verdict -------------------------------------------------------------

DOUBT = ("Unavailable", "Timeout", "Lost", "LeaseExpired", "TransferFailed")


def judge(records, explains, back=None):
    """No wrong byte, nothing lost, nothing back, all in time; an error only where the fault
    explains it: explains(record). back(record): whether what was removed may still be found."""
    wrong = []
    for record in records:
        if record.took > CALL_S + LATE_S:
            wrong.append(record)
        if record.end == "ok":
            continue
        if record.end in DOUBT and explains(record):
            continue
        if record.end == "BACK" and back and back(record):
            continue
        wrong.append(record)
    if not wrong:
        return
    story = sorted((r for r in records if r.key == wrong[0].key), key=lambda r: r.at)
    raise Failure(f"{len(wrong)} of {len(records)} calls ended as they must not:\n    " +
                  "\n    ".join(map(str, wrong[:20])) + f"\n  all of {wrong[0].key}:\n    " +
                  "\n    ".join(f"{r.at - story[0].at:+.3f} {r}" for r in story))


def tell(t, records, began):
    """How many calls there were, and which of them failed, for a reader of the log."""
    ends = {}
    for record in records:
        if record.end != "ok":
            key = f"{record.what} {record.end.split()[0]}"
            first, last, count, most = ends.get(key, (record.at, record.at, 0, 0))
            ends[key] = (min(first, record.at), max(last, record.at), count + 1, max(most, record.took))
    t.note(f"{len(records)} calls" + "".join(
        f"; {count} x {key} from {first - began:+.1f} to {last - began:+.1f} s of the fault, in {most:.2f} s at most"
        for key, (first, last, count, most) in sorted(ends.items())))


def leave_nothing(t, nodes):
    """When all was removed and nobody reads any more, every pool is empty again."""
    for node in nodes:
        until(lambda: node.used() == 0, lambda: f"{node.name} still uses {node.used()} bytes: {node.stats()['pool']}")


