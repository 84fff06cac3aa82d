#!/usr/bin/python3
"""The one runner behind `make check`: builds what the chosen suites need, runs their
programs, counts real results and prints them.

A program's result is what its closing lines say: cmocka's tallies, or the plain line
`N passed, N failed[, N skipped]` that all others print last. A program that dies, says
nothing or runs out of time is one failure more. The last line of all is the total.
"""

import argparse
import dataclasses
import glob
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
TAIL_LINES = 40
HEARTBEAT_S = 30

# The make target that fills each build directory.
BUILDS = {"build": "release", "build-debug": "debug", "build-tsan": "tsan", "build-clang": "clang"}

SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclasses.dataclass
class Suite:
    """Programs of one kind: `meson` names the meson suites, by build directory, whose tests
    belong here; `commands` are scripts, with {build} for the first directory."""

    name: str
    minutes: float  # budget of the whole suite; it is ended at twice that
    jobs: int = 2  # programs at a time; 1 where they measure or need the machine
    meson: dict = dataclasses.field(default_factory=dict)
    commands: list = dataclasses.field(default_factory=list)
    builds: tuple = ()

    def needs(self):
        return list(dict.fromkeys([*self.builds, *self.meson]))


SUITES = [
    Suite("layer", 5, commands=["tests/layers.py --self-test", "tests/layers.py", "tests/house.py", "tests/check_docs.py"],
          builds=("build", "build-debug", "build-clang")),
    Suite("unit", 6, meson={"build-debug": "unit"}, commands=["tests/unit/test_*.py"]),
    Suite("model", 5, meson={"build-debug": "model"}),
    Suite("hold", 5, jobs=1, meson={"build": "litmus", "build-tsan": "stress"},
          commands=["tests/model/check_model.py"]),
    Suite("sim", 12, jobs=1, meson={"build-debug": "sim"}),
    Suite("plants", 5, jobs=1, commands=["tests/plants.py"], builds=("build-debug",)),
    Suite("python", 6, jobs=1, commands=["tests/python/run.py"], builds=("build",)),
    Suite("python-debug", 6, jobs=1, commands=["tests/python/run.py"], builds=("build-debug",)),
    Suite("e2e", 15, jobs=1, meson={"build-debug": "e2e", "build": "measured"},
          commands=["tests/e2e/test_commands.py", "tests/e2e/test_main_job.py"],
          builds=("build", "build-debug")),
    Suite("sim-cluster", 8, jobs=1, meson={"build-debug": "sim-cluster"}),
    Suite("plants-cluster", 12, jobs=1, commands=["tests/plants.py --cluster"], builds=("build-debug",)),
    Suite("cluster", 12, jobs=1, commands=["tests/e2e/test_cluster_*.py"], builds=("build", "build-debug")),
]


@dataclasses.dataclass
class Program:
    suite: Suite
    name: str
    argv: list
    build: str
    env: dict
    # while it runs, and after
    process: subprocess.Popen = None
    log: pathlib.Path = None
    started: float = 0
    seconds: float = 0
    timed_out: bool = False

    def command(self):
        """The shell line that repeats it, from the top of the tree."""
        env = [f"{k}={v}" for k, v in self.env.items() if not k.endswith("SAN_OPTIONS")]
        return shlex.join([*(["env"] if env else []), *env, *self.argv])


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        tail = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{tail}"


PLAIN = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
CMOCKA = re.compile(r"\[=+\] (Running) (\d+) test\(s\)|\[\s*(PASSED|SKIPPED)\s*\] (\d+) test\(s\)")


def parse(text):
    """(tally, complaint) of a program's output; complaint is None if it closed as it should."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    plain = PLAIN.match(lines[-1]) if lines else None
    if plain:
        return Tally(int(plain[1]), int(plain[2]), int(plain[3] or 0)), None
    count = {"Running": 0, "PASSED": 0, "SKIPPED": 0}
    for run, run_n, end, end_n in CMOCKA.findall(text):
        count[run or end] += int(run_n or end_n)
    if not count["Running"]:
        return Tally(), "printed no closing line"
    # cmocka leaves tests whose fixture failed out of its list of failures: count the rest.
    failed = count["Running"] - count["PASSED"] - count["SKIPPED"]
    return Tally(count["PASSED"], failed, count["SKIPPED"]), None


def judge(program):
    """(tally, complaint) of a program that has ended."""
    tally, complaint = parse(program.log.read_text(errors="replace"))
    status = program.process.returncode
    if program.timed_out:
        complaint = f"ran out of time after {program.seconds:.0f} s"
    elif status < 0:
        complaint = f"died of {signal.Signals(-status).name}"
    elif status != 0 and not tally.failed:
        complaint = f"{complaint or 'claims success'}, exit status {status}"
    elif not complaint and not (tally.passed or tally.failed or tally.skipped):
        complaint = "ran no test"
    if complaint and not tally.failed:
        tally.failed = 1
    return tally, complaint


class Display:
    """Progress: one line kept up to date on a terminal, else a line per event."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self.last_beat = time.monotonic()

    def say(self, text):
        print(("\r\x1b[K" if self.live else "") + text, flush=True)
        self.last_beat = time.monotonic()

    def running(self, suite, programs, done, total):
        names = ", ".join(f"{p.name} {time.monotonic() - p.started:.0f} s" for p in programs)
        if self.live:
            print(f"\r\x1b[K{suite.name} {done}/{total}  {names}"[:120], end="", flush=True)
        elif time.monotonic() - self.last_beat >= HEARTBEAT_S:
            self.say(f"  ... {suite.name} {done}/{total}  {names}")


def from_top(word):
    """Programs run at the top of the tree, so that what they print of themselves is short."""
    return word.removeprefix(f"{ROOT}/")


def meson_programs(suite, build, wanted):
    """The tests that meson.build declares for this suite in one build directory."""
    path = ROOT / build / "meson-info" / "intro-tests.json"
    for test in json.loads(path.read_text()) if path.exists() else []:
        if wanted in [s.split(":")[-1] for s in test["suite"]]:
            argv = [from_top(word) for word in test["cmd"]]
            yield Program(suite, test["name"], argv, build, dict(test["env"]))


def command_programs(suite):
    """The scripts of a suite; a pattern may match none, a plain name must exist."""
    build = suite.needs()[0] if not suite.meson else [*suite.meson][0]
    for line in suite.commands:
        pattern, *args = shlex.split(line)
        found = sorted(glob.glob(str(ROOT / pattern))) if "*" in pattern else [str(ROOT / pattern)]
        for path in found:
            name = " ".join([pathlib.Path(path).stem, *args])
            yield Program(suite, name, [PYTHON, from_top(path), *args], build, {})


def programs_of(suite, only):
    found = [p for build, wanted in suite.meson.items() for p in meson_programs(suite, build, wanted)]
    found += command_programs(suite)
    return [p for p in found if not only or any(word in p.name for word in only)]


def start(program):
    program.log = ROOT / program.build / "check" / f"{program.suite.name}-{program.name}.log".replace("/", "-")
    program.log.parent.mkdir(parents=True, exist_ok=True)
    program.env["CENOTE_BUILD"] = program.build
    program.started = time.monotonic()
    options = {"cwd": ROOT, "stdin": subprocess.DEVNULL, "start_new_session": True,
               "env": {**os.environ, **SANITIZER_ENV, **program.env}}
    with open(program.log, "wb") as log:
        try:
            program.process = subprocess.Popen(program.argv, stdout=log, stderr=log, **options)
        except OSError as error:
            log.write(f"{error}\n".encode())
            program.process = subprocess.Popen(["false"], **options)


def stop(program):
    """Ends a program and what it started; the session is its own."""
    try:
        os.killpg(program.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    program.process.wait()


def report(display, program):
    program.seconds = time.monotonic() - program.started
    tally, complaint = judge(program)
    mark = "FAILED" if tally.failed else "ok"
    display.say(f"  {mark:6} {program.suite.name}/{program.name}  {tally}  ({program.seconds:.1f} s)"
                + (f"  {complaint}" if complaint else ""))
    for line in re.findall(r"^SKIPPED \[.*", program.log.read_text(errors="replace"), re.M):
        display.say(f"    {line}")  # pytest tells why
    if tally.failed:
        lines = program.log.read_text(errors="replace").splitlines()
        print("\n".join("    | " + line for line in lines[-TAIL_LINES:]))
        print(f"    whole output: {program.log.relative_to(ROOT)}\n    again: {program.command()}", flush=True)
    return tally


def wait_any(display, suite, running, done, total, deadline):
    """The first of the running programs to end; kills all of them at the deadline."""
    while True:
        for program in running:
            if program.process.poll() is not None:
                stop(program)
                return program
            if time.monotonic() > deadline:
                program.timed_out = True
                stop(program)
                return program
        display.running(suite, running, done, total)
        try:
            running[0].process.wait(0.1)
        except subprocess.TimeoutExpired:
            pass


def run_suite(display, suite, programs):
    """All programs of one suite within its minutes; what never got its turn has failed."""
    deadline = time.monotonic() + suite.minutes * 120
    waiting, running, tally, done = list(programs), [], Tally(), 0
    display.say(f"{suite.name}: {len(programs)} programs, budget {suite.minutes:g} min")
    try:
        while waiting or running:
            while waiting and len(running) < suite.jobs and time.monotonic() < deadline:
                running.append(waiting.pop(0))
                start(running[-1])
            if not running:
                names = ", ".join(p.name for p in waiting)
                display.say(f"  FAILED {suite.name}: no time left for {names}")
                tally.failed += len(waiting)
                break
            program = wait_any(display, suite, running, done, len(programs), deadline)
            running.remove(program)
            tally.add(report(display, program))
            done += 1
    finally:
        for program in running:
            stop(program)
    return tally


def make_builds(display, suites):
    """Brings every build directory that the suites need up to date; returns those that failed."""
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    broken = []
    for build in dict.fromkeys(b for suite in suites for b in suite.needs()):
        display.say(f"building {build}/")
        log = tempfile.TemporaryFile(mode="w+", errors="replace")
        argv = ["make", "--no-print-directory", BUILDS[build]]
        if subprocess.run(argv, cwd=ROOT, env=env, stdout=log, stderr=log, check=False).returncode:
            log.seek(0)
            print("\n".join("    | " + line for line in log.read().splitlines()[-TAIL_LINES:]))
            print(f"  FAILED {build} does not build\n    again: {shlex.join(argv)}", flush=True)
            broken.append(build)
    return broken


def choose(names):
    known = {suite.name: suite for suite in SUITES}
    wanted = [n for word in names or known for n in word.split(",") if n]
    unknown = [n for n in wanted if n not in known]
    if unknown:
        sys.exit(f"no suite {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[n] for n in dict.fromkeys(wanted)]


def main():
    parser = argparse.ArgumentParser(
        description="Runs the checks of the tree.",
        epilog="suites: " + ", ".join(f"{s.name} ({s.minutes:g} min)" for s in SUITES))
    parser.add_argument("--suite", action="append", metavar="NAME", help="this suite only; may repeat, or a,b")
    parser.add_argument("--only", action="append", metavar="PROGRAM", help="programs whose name contains this")
    parser.add_argument("--list", action="store_true", help="say what would run")
    parser.add_argument("--no-build", action="store_true", help="take the build directories as they are")
    args = parser.parse_args()
    suites, display, total = choose(args.suite), Display(), Tally()

    broken = [] if args.no_build or args.list else make_builds(display, suites)
    total.failed += len(broken)
    for suite in suites:
        missing = [b for b in suite.needs() if b in broken]
        if missing:
            display.say(f"  FAILED {suite.name}: not run without {', '.join(missing)}")
            total.failed += 1
            continue
        programs = programs_of(suite, args.only)
        if args.list:
            for program in programs:
                print(f"{suite.name}/{program.name}: {program.command()}")
            continue
        if programs:
            total.add(run_suite(display, suite, programs))
        elif not args.only:
            display.say(f"  FAILED {suite.name}: no programs found")
            total.failed += 1
    if args.list:
        return 0
    if not (total.passed or total.failed):
        print("nothing ran")
    print(total)
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
