#!/usr/bin/python3
"""How few bytes must be read back from disk: the offline optimum of a log of puts, reads and
removes, in a memory of limited size.

    optimum.py --pool BYTES --reserve BYTES LOG

LOG is what `cenote bench station --log LOG` writes: a line for each event, in the order in
which they happened, with step, monotonic time in ns, event, key and bytes:

    put      the object is in memory now, whole
    read     the same; what is not there is read back, and counts
    remove   it has ended
    turning  the node keeps so many bytes of the pool for loads

At every moment at most the pool less `reserve` and the largest `turning` may be in memory. An
object may be kept in part, by single bytes; writing is free.

Why the answer is the least possible. An object of s bytes is s pages of one byte that are
used at the same moments. Between two uses that follow each other a page is either kept, or
read back at the second at the price of 1; between its last read and its end it need not be
kept at all. So a schedule is a choice of intervals to keep, such that at each use the kept
intervals that run across it leave room for the object in use; and the most that can be kept is
wanted. For intervals of equal worth, going through time and dropping, whenever there are too
many, those that end last is optimal, also as the room left for them changes: let the optimum
drop another interval at the first moment where both differ; exchanging the two keeps to every
later limit, since the one that ends last covers all moments from here on that the other does.
For caches this is the rule of L. A. Belady, "A study of replacement algorithms for a
virtual-storage computer", IBM Systems Journal 5 (1966): the page goes whose next use is furthest;
for intervals U. Faigle and W. M. Nawijn, "Note on scheduling intervals on-line", Discrete
Applied Mathematics 58 (1995). Since size and price are both bytes, no fraction of an object
does better than whole bytes do.

Prints JSON: `read_bytes`, `swapped_bytes` (read back at the optimum), and
`swapped_bytes_whole`, the same for all of the pool: what a node really did cannot be below
that. Python's library is all it needs.
"""

import argparse
import heapq
import json
import sys

NEVER = float("inf")
EVENTS = ("put", "read", "remove", "turning")


class Bad(Exception):
    """What is wrong with the log."""


def parse(lines):
    """(event, key, bytes) of each line."""
    events = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if len(words) != 5 or words[2] not in EVENTS or not words[4].isdecimal():
            raise Bad(f"line {number}: {line.rstrip()!r} is not: step, time, event, key, bytes")
        events.append((words[2], words[3], int(words[4])))
    return events


def next_reads(events):
    """For each event, when its object is read next; NEVER: not before it ends."""
    following, found = {}, [NEVER] * len(events)
    for at in range(len(events) - 1, -1, -1):
        event, key, _ = events[at]
        found[at] = following.get(key, NEVER)
        if event == "read":
            following[key] = at
        elif event != "turning":
            following[key] = NEVER
    return found


class Memory:
    """What is in memory: of each object some bytes, and when they are wanted next."""

    def __init__(self):
        self.kept = {}  # key: bytes
        self.wanted = {}  # key: next read
        self.order = []  # heap of (-next read, key); may have old entries
        self.used = 0

    def take_out(self, key):
        """All of the object's bytes; returns how many there were."""
        there = self.kept.pop(key, 0)
        self.used -= there
        return there

    def put_in(self, key, size, wanted):
        self.kept[key], self.wanted[key] = size, wanted
        self.used += size
        heapq.heappush(self.order, (-wanted, key))

    def shrink(self, limit):
        """Give up what is wanted last until no more than `limit` bytes are left."""
        while self.used > limit:
            wanted, key = self.order[0]
            if key not in self.kept or self.wanted[key] != -wanted:
                heapq.heappop(self.order)
                continue
            gone = min(self.used - limit, self.kept[key])
            self.kept[key] -= gone
            self.used -= gone
            if not self.kept[key]:
                del self.kept[key]


def optimum(events, limit):
    """The fewest bytes that must be read back where `limit` bytes may be in memory."""
    wanted, memory = next_reads(events), Memory()
    swapped, sizes = 0, {}
    for at, (event, key, size) in enumerate(events):
        if event == "turning":
            continue
        if event == "put" and key in sizes:
            raise Bad(f"event {at + 1}: {key} is put twice")
        if event != "put" and sizes.get(key) != size:
            raise Bad(f"event {at + 1}: {event} of {key}, which has no {size} bytes")
        there = memory.take_out(key)
        if event == "remove":
            del sizes[key]
            continue
        sizes[key] = size
        if event == "read":
            swapped += size - there
        # An object that does not fit alone must still be used: then nothing else stays.
        memory.shrink(max(limit - size, 0))
        memory.put_in(key, size, wanted[at])
    return swapped


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--pool", type=int, required=True, metavar="BYTES", help="size of the pool")
    parser.add_argument("--reserve", type=int, default=0, metavar="BYTES",
                        help="bytes of it that are to stay free")
    parser.add_argument("log", metavar="LOG")
    options = parser.parse_args()
    try:
        with open(options.log, encoding="ascii") as lines:
            events = parse(lines)
        turning = max((size for event, _, size in events if event == "turning"), default=0)
        result = {
            "turning_bytes": turning,
            "read_bytes": sum(size for event, _, size in events if event == "read"),
            "swapped_bytes": optimum(events, options.pool - options.reserve - turning),
            "swapped_bytes_whole": optimum(events, options.pool),
        }
    except (Bad, OSError, UnicodeDecodeError) as why:
        sys.exit(f"optimum.py: {options.log}: {why}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
