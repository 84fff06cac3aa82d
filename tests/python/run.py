#!/usr/bin/python3
"""Runs the tests of the Python package: `run.py [pytest arguments]`. What was skipped, and what
tests have measured, is told with its reason.

$CENOTE_BUILD names the build directory. In a sanitized build the interpreter itself is not:
the sanitizer is loaded before it, and does not judge what the interpreter leaks. The last
line is `N passed, N failed[, N skipped]`.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / os.environ.get("CENOTE_BUILD", "build")
MODULE = BUILD / "src/python/cenote/_cenote.abi3.so"


class Tally:
    """Counts what pytest reports, and tells what tests have measured."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.measured = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            name = report.nodeid.rpartition("::")[2]
            self.measured += [f"{name}: {what} {value}" for what, value in report.user_properties]
        if report.failed:  # in a fixture too
            self.failed += 1
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed += 1
        elif report.skipped:  # a whole file
            self.skipped += 1


def sanitizers():
    """The libraries that have to be there first, as the module is linked."""
    text = subprocess.run(["ldd", MODULE], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.findall(r"=> (\S*lib[at]san\.so\S*)", text)


def main():
    if not MODULE.exists():
        print(f"{MODULE} is not built: meson configure -Dpython=enabled")
        print("0 passed, 1 failed")
        return 1
    first = sanitizers()
    if first and "LD_PRELOAD" not in os.environ:
        options = os.environ.get("ASAN_OPTIONS", "")
        env = {**os.environ, "LD_PRELOAD": " ".join(first), "PYTHONMALLOC": "malloc",
               "ASAN_OPTIONS": f"{options}:detect_leaks=0"}
        os.execve(sys.executable, [sys.executable, __file__, *sys.argv[1:]], env)
    arguments = sys.argv[1:]
    if not any(os.path.exists(word.split("::")[0]) for word in arguments):
        arguments.append(str(HERE))
    tally = Tally()
    status = pytest.main(["-p", "no:cacheprovider", "-q", "-rs", "--rootdir", str(HERE), *arguments],
                         plugins=[tally])
    for line in tally.measured:
        print(line)
    tail = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {tally.failed} failed{tail}")
    return int(status)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main())
