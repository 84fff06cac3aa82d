#!/usr/bin/python3
"""Tests of the tests: each bug of src/base/plant.def is planted, and the simulator must find it;
with --cluster, those of src/base/plant_cluster.def the simulator of a cluster.

A case passes if one of the bug's seeds fails, and says how; the suite `sim` has shown that they
pass without it. `plants.py NAME...` plants these alone; --verbose says what each run found.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The lists, and the program that must find what is in them.
DEFS = {"plant.def": "sim_plants", "plant_cluster.def": "cluster/sim_cluster_plants"}
LINE = re.compile(r'^PLANT\((\w+), (\d+), (\d+), "(.+)"\)$', re.M)
LEAST = 10  # bugs, or the list was not understood
FOUND = re.compile(r"^seed \d+ FAILED, again: .*$", re.M)


def plants(files):
    """By name: the program, the seeds, what is wrong."""
    tests = os.path.join(os.environ.get("CENOTE_BUILD", "build-debug"), "tests/sim")
    known = {}
    for file in files:
        program = DEFS[file]
        found = LINE.findall((ROOT / "src/base" / file).read_text())
        if len(found) < LEAST:
            sys.exit(f"{file} was not understood: {len(found)} bugs")
        for name, first, last, text in found:
            known[name] = (os.path.join(tests, program), f"{first}-{last}", text)
    return known


def run(program, name, seeds):
    """What the simulator says of the seeds with this bug; None: it found nothing."""
    argv = [program, "--plant", name, "--seeds", seeds, "--jobs", "2", "--stop"]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    return done.stdout if done.returncode == 1 and FOUND.search(done.stdout) else None


def why(said):
    """The line that tells what was wrong."""
    lines = [line for line in said.splitlines()
             if re.search(r"^seed \d+, step|check failed|runtime error|ERROR: ", line)]
    return lines[0] if lines else "it died"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs to plant; all without")
    parser.add_argument("--cluster", action="store_true", help="those of the simulator of a cluster")
    parser.add_argument("--verbose", action="store_true", help="say what was found")
    args = parser.parse_args()
    known = plants(["plant_cluster.def" if args.cluster else "plant.def"])
    unknown = [n for n in args.names if n not in known]
    if unknown:
        sys.exit(f"no bug {', '.join(unknown)}; there are {', '.join(known)}")
    failed = 0
    chosen = args.names or list(known)
    for name in chosen:
        program, seeds, text = known[name]
        said = run(program, name, seeds)
        if said is None:
            failed += 1
            print(f"FAILED {name}: {text}; seeds {seeds} did not find it\n"
                  f"  again: {program} --plant {name} --seeds {seeds}", flush=True)
            continue
        print(f"ok     {name}: {why(said) if args.verbose else text}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
