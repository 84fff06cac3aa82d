#!/usr/bin/python3
"""Search the configurations of hold.pml to their ends, and see every mutation caught.

A configuration of the protocol as it is must end with no error and with every state
visited; one with a MUT_ flag must break the rule named beside it, no other. Each search
runs in a directory of its own that is removed afterwards. Needs spin and gcc.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = os.path.join(HERE, "hold.pml")

# One line each: set, name, expected result, flags.
#   set      check = every run; full = added by --full; quick = left out of --full, which
#            has a longer search of the same kind
#   result   ok, or the rule that is broken (RULE_* of hold.pml in lower case; several with
#            | where the order of the search decides), or cycle
#   flags    -D is added; LTL=name searches that formula with weak fairness instead
TABLE = """
quick  ops              ok      OPS=3
quick  fine             ok      OPS=2 FINE
quick  fields-first     ok      OPS=2 FIELDS_FIRST
quick  kind-only        ok      OPS=3 MUT_RECHECK_KIND MUT_SAME_LIFE
quick  kill             ok      OPS=1 KILLS=1
quick  crash            ok      OPS=2 CRASHES=1 ONE_THREAD
quick  kill-crash       ok      OPS=1 KILLS=1 CRASHES=1 ONE_THREAD
quick  close            ok      OPS=2 CLOSES=1 ONE_THREAD
quick  move             ok      OPS=2 NSLOT=2 MOVE ONE_THREAD
quick  move-crash       ok      OPS=1 NSLOT=2 MOVE CRASHES=1 ONE_THREAD
quick  pin              ok      OPS=2 PIN
quick  pin-kill         ok      OPS=2 PIN KILLS=1 ONE_THREAD
quick  pin-crash        ok      OPS=2 PIN CRASHES=1 ONE_THREAD
quick  pin-close        ok      OPS=2 PIN CLOSES=1 ONE_THREAD
quick  put              ok      OPS=3 PUT ONE_THREAD
quick  put-kill         ok      OPS=2 PUT KILLS=1 ONE_THREAD
quick  put-crash        ok      OPS=2 PUT CRASHES=1 ONE_THREAD
quick  put-close        ok      OPS=2 PUT CLOSES=1 ONE_THREAD
quick  put-exists       ok      OPS=1 PUT NSLOT=2 CRASHES=1 ONE_THREAD
quick  replace          ok      OPS=1 PUT REPLACE KEEP NSLOT=2 NPUT=2 ONE_THREAD
quick  replace-crash    ok      OPS=1 PUT REPLACE KEEP NSLOT=2 CRASHES=2 ONE_THREAD
quick  replace-kill-crash ok    OPS=1 PUT REPLACE KEEP NSLOT=2 KILLS=1 CRASHES=1 ONE_THREAD

check  state-plain      bytes   OPS=1 MUT_STATE_PLAIN
check  hold-plain       bytes   OPS=2 MUT_HOLD_PLAIN
check  want-plain       parked|kind  OPS=1 MUT_WANT_PLAIN
check  no-recheck       bytes   OPS=2 MUT_NO_RECHECK
check  check-then-hold  bytes   OPS=2 MUT_CHECK_THEN_HOLD
check  recheck-kind     bytes   OPS=2 FIELDS_FIRST MUT_RECHECK_KIND
check  same-life        bytes   OPS=2 FIELDS_FIRST MUT_SAME_LIFE
check  look-then-ask    parked|kind  OPS=1 MUT_LOOK_THEN_ASK
check  want-first       parked|kind  OPS=1 MUT_WANT_FIRST
check  quiet-fail       parked|kind  OPS=2 MUT_QUIET_FAIL
check  condemn-frees    bytes   OPS=1 MUT_CONDEMN_FREES
check  zero-holds       bytes|hold   OPS=2 MUT_ZERO_HOLDS
check  death-nowake     parked|kind  OPS=2 KILLS=1 MUT_DEATH_NOWAKE
check  id-reuse         bytes|hold   OPS=2 KILLS=1 MUT_ID_REUSE
check  close-clears     bytes|hold|kind  OPS=2 CLOSES=1 MUT_CLOSE_CLEARS
check  restart-noarm    parked|kind  OPS=1 CRASHES=1 MUT_RESTART_NOARM
check  no-reattach      parked|kind  OPS=1 CRASHES=1 MUT_NO_REATTACH

check  look-no-pin      owed    OPS=1 PIN ONE_THREAD MUT_LOOK_NO_PIN
check  unpin-first      owed    OPS=1 PIN ONE_THREAD MUT_UNPIN_FIRST
check  unpin-nowake     parked|kind  OPS=1 PIN ONE_THREAD MUT_UNPIN_NOWAKE
check  late-answer      parked|kind|pin  OPS=1 PIN ONE_THREAD MUT_LATE_ANSWER
check  pin-leak-kill    parked|kind|pin  OPS=1 PIN KILLS=1 ONE_THREAD MUT_PIN_LEAK
check  pin-leak-close   parked|kind|pin  OPS=1 PIN CLOSES=1 ONE_THREAD MUT_PIN_LEAK
check  private-grant    bytes   OPS=2 PIN CRASHES=1 ONE_THREAD MUT_GRANT

check  serve-writing    bytes   OPS=1 PUT ONE_THREAD MUT_SERVE_WRITING
check  restart-discard  bytes   OPS=1 PUT CRASHES=1 ONE_THREAD MUT_RESTART_DISCARD
check  answer-first     bytes   OPS=1 PUT CRASHES=1 ONE_THREAD MUT_ANSWER_FIRST
check  stale-answer     bytes   OPS=1 PUT CRASHES=1 ONE_THREAD MUT_STALE_ANSWER
check  unclaimed-kept   kind    OPS=0 PUT CRASHES=1 ONE_THREAD MUT_UNCLAIMED_KEPT
check  writer-leak      kind    OPS=0 PUT KILLS=1 ONE_THREAD MUT_WRITER_LEAK
check  close-discards   bytes   OPS=1 PUT CLOSES=1 ONE_THREAD MUT_CLOSE_DISCARDS
check  drop-sealed      lost    OPS=0 PUT REPLACE KEEP NSLOT=2 CRASHES=1 ONE_THREAD MUT_DROP_SEALED
check  seal-late        lost    OPS=0 PUT REPLACE KEEP NSLOT=2 KILLS=1 CRASHES=1 ONE_THREAD MUT_SEAL_LATE
check  ready-first      one     OPS=0 PUT REPLACE KEEP NSLOT=2 ONE_THREAD MUT_READY_FIRST
check  recover-blind    one     OPS=0 PUT NSLOT=2 CRASHES=1 ONE_THREAD MUT_RECOVER_BLIND

quick  freed            ok      LTL=freed SB=1 ONE_THREAD NOREMOVE
quick  drained          ok      LTL=drained SB=1 ONE_THREAD
quick  woken            ok      LTL=woken SB=1 ONE_THREAD NOREMOVE
check  live-look-then-ask  cycle  LTL=woken ONE_THREAD NOREMOVE MUT_LOOK_THEN_ASK
check  live-want-plain  cycle   LTL=woken ONE_THREAD NOREMOVE MUT_WANT_PLAIN
check  live-quiet-fail  cycle   LTL=drained ONE_THREAD MUT_QUIET_FAIL
check  live-want-first  cycle   LTL=woken ONE_THREAD NOREMOVE MUT_WANT_FIRST

full   ops-4            ok      OPS=4
full   fine-3           ok      OPS=3 FINE
full   deep-buffer      ok      OPS=3 SB=3
full   twice            ok      OPS=2 NACQ=2
full   fields-first-3   ok      OPS=3 FIELDS_FIRST
full   kill-2-ops       ok      OPS=2 KILLS=1
full   two-kills        ok      OPS=1 KILLS=2
full   two-crashes      ok      OPS=2 CRASHES=2
full   kill-and-crash   ok      OPS=1 KILLS=1 CRASHES=1
full   orphan           ok      OPS=2 CLOSES=1
full   kind-only-kill   ok      OPS=2 KILLS=1 MUT_RECHECK_KIND MUT_SAME_LIFE
full   move-2-ops       ok      OPS=2 NSLOT=2 MOVE
full   move-and-crash   ok      OPS=1 NSLOT=2 MOVE CRASHES=1
full   move-and-kill    ok      OPS=1 NSLOT=2 MOVE KILLS=1
full   move-3-regions   ok      OPS=2 NSLOT=2 NREG=3 MOVE ONE_THREAD
full   pin-3-ops        ok      OPS=3 PIN
full   pin-twice        ok      OPS=2 PIN NACQ=2 ONE_THREAD
full   pin-threads-kill ok      OPS=2 PIN KILLS=1
full   pin-threads-crash ok     OPS=2 PIN CRASHES=1
full   pin-kill-crash   ok      OPS=1 PIN KILLS=1 CRASHES=1
full   pin-orphan       ok      OPS=2 PIN CLOSES=1 CRASHES=1 ONE_THREAD
full   pin-move         ok      OPS=2 PIN NSLOT=2 MOVE ONE_THREAD
full   put-threads      ok      OPS=3 PUT NPUT=2
full   put-two-crashes  ok      OPS=2 PUT CRASHES=2 ONE_THREAD
full   put-kill-crash   ok      OPS=2 PUT KILLS=1 CRASHES=1 ONE_THREAD
full   put-orphan       ok      OPS=2 PUT CLOSES=1 CRASHES=1 ONE_THREAD
full   put-pin          ok      OPS=2 PUT PIN
full   put-pin-crash    ok      OPS=1 PUT PIN CRASHES=1
full   put-exists-2-ops ok      OPS=2 PUT NSLOT=2 CRASHES=1 ONE_THREAD
full   replace-move     ok      OPS=1 PUT REPLACE KEEP NSLOT=2 NREG=3 MOVE CRASHES=1 ONE_THREAD
full   replace-evict    ok      OPS=2 PUT REPLACE NSLOT=2 CRASHES=1 ONE_THREAD
full   replace-twice    ok      OPS=1 PUT REPLACE KEEP NSLOT=2 NPUT=2 CRASHES=2 ONE_THREAD
full   freed-2          ok      LTL=freed ONE_THREAD NOREMOVE
full   freed-removed    ok      LTL=freed ONE_THREAD
full   drained-2        ok      LTL=drained ONE_THREAD
full   woken-2          ok      LTL=woken ONE_THREAD NOREMOVE
"""
# Names of RULE_ numbers, read from the model, so that the two cannot differ.
RULES = {n: w.lower() for w, n in
         re.findall(r"#define RULE_(\w+) (\d+)", open(MODEL, encoding="ascii").read())}
# Limits of one search, in MiB and s; the time is a guard against a hang, not a budget.
SIZE = {"check": {"mem": 3500, "time": 900}, "full": {"mem": 8000, "time": 10800}}


class Config:
    def __init__(self, line):
        self.set, self.name, expect, *flags = line.split()
        self.expect = set(expect.split("|"))
        self.ltl = next((f[4:] for f in flags if f.startswith("LTL=")), None)
        self.flags = ["-D" + f for f in flags if not f.startswith("LTL=")]
        if self.ltl:
            self.flags.append("-DLIVE")

    def effort(self, limits):
        """Short searches are over sooner than an optimizing compiler."""
        if limits is SIZE["full"] or self.ltl:
            return "-O2"
        return "-O0" if self.expect != {"ok"} or "-DNSLOT=2" in self.flags else "-Og"

    def commands(self, limits):
        """The commands of one search; the last one is the search itself."""
        cc = ["gcc", "-w", "-DVECTORSZ=1024", "-DMEMLIM=%d" % limits["mem"],
              "-DNFAIR=3" if self.ltl else "-DSAFETY", self.effort(limits)]
        if limits is SIZE["full"]:
            cc.append("-DCOLLAPSE")
        table = "-w24" if self.expect == {"ok"} else "-w20"
        search = ["./pan", table, "-m2000000"]
        if self.ltl:
            search += ["-a", "-f", "-N", self.ltl]
        return [["spin", "-a", *self.flags, MODEL], [*cc, "-o", "pan", "pan.c"], search]


def finding(out):
    """What the search found: ok, incomplete, cycle, or the name of a rule."""
    bad = re.search(r"assertion violated \((\d+)&&", out)
    if bad:
        return RULES.get(bad.group(1), "rule " + bad.group(1))
    if "acceptance cycle" in out:
        return "cycle"
    if "pan:1:" in out:
        return re.search(r"pan:1: (.*)", out).group(1)
    if not re.search(r"errors: 0\b", out) or re.search(
            r"not completed|too small|out of memory|max search depth", out):
        return "INCOMPLETE"
    return "ok"


def search(config, limits, trace):
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hold-model-") as where:
        out = ""
        for command in config.commands(limits):
            try:
                run = subprocess.run(command, cwd=where, text=True, check=False,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     timeout=limits["time"])
            except subprocess.TimeoutExpired:
                return "INCOMPLETE", 0, time.monotonic() - start, "took over %d s" % limits["time"]
            out = run.stdout
            if command[0] != "./pan" and run.returncode != 0:
                return command[0] + " failed", 0, time.monotonic() - start, out
        took = time.monotonic() - start
        states = re.search(r"(\d+) states, stored", out)
        if trace and os.path.exists(os.path.join(where, "hold.pml.trail")):
            ltl = ["-N", config.ltl] if config.ltl else []
            out += subprocess.run(["spin", "-t", "-p", "-g", *ltl, *config.flags, MODEL],
                                  cwd=where, text=True, check=False,
                                  stdout=subprocess.PIPE).stdout
        return finding(out), int(states.group(1)) if states else 0, took, out


def report(config, args, result):
    found, states, took, out = result
    good = found in config.expect
    what = "%s states" % format(states, ",")
    if found != "ok":
        what = "%s, %s" % (found, what)
    print("%-6s %-20s %s  %.1f s" % ("ok" if good else "FAILED", config.name, what, took))
    if not good:
        print("       expected %s; flags %s" % ("|".join(sorted(config.expect)),
                                                " ".join(config.flags)))
        print("       again: %s%s --only %s --trace" % (
            os.path.abspath(__file__), " --full" if args.full else "", config.name))
    if args.trace or (not good and " failed" in found):
        print(out)
    sys.stdout.flush()
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="the long searches, of hours")
    parser.add_argument("--only", metavar="NAME", action="append",
                        help="this configuration, of either set; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="at a time (2)")
    parser.add_argument("--trace", action="store_true",
                        help="print the search's output and the steps that led to an error")
    parser.add_argument("--list", action="store_true", help="print the table and stop")
    args = parser.parse_args()

    configs = [Config(line) for line in TABLE.splitlines() if line]
    if args.list:
        print(TABLE.strip())
        return 0
    if args.only:
        chosen = [c for c in configs if c.name in args.only]
        if len({c.name for c in chosen}) != len(set(args.only)):
            parser.error("no such configuration; --list names them")
    else:
        chosen = [c for c in configs if c.set in ("check", "full" if args.full else "quick")]
    limits = {c: SIZE["full" if args.full or c.set == "full" else "check"] for c in chosen}
    passed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = {pool.submit(search, c, limits[c], args.trace): c for c in chosen}
        for run in concurrent.futures.as_completed(runs):
            passed += report(runs[run], args, run.result())
    print("%d passed, %d failed" % (passed, len(chosen) - passed))
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
