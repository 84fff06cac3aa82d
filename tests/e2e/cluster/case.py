"""Cases: run one after another, each with a directory and an end to all that it started."""

import contextlib
import ctypes
import fnmatch
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

DEADLINE_S = 60  # for an event that is sure to come
CASE_LIMIT_S = 240  # one that takes longer hangs
PAUSE_S = 0.01  # between two looks at something, so that it gets the processor
LOG_LINES = 25  # of each process, when a case has failed
CLONE_NEWNS = 0x20000


class Failure(AssertionError):
    """What a case found."""


class Skip(Exception):
    """Why a case cannot be run here."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def all_done(results):
    """Of a batch; what failed is raised."""
    for one in results:
        if isinstance(one, Exception):
            raise one


def until(condition, what, seconds=DEADLINE_S):
    """Ask until it holds, and return what it said; what it asks is an event, not the time."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failure(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(PAUSE_S)


class Aside(threading.Thread):
    """A call beside the case, in a thread of its own; end() raises what it has raised."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.error = call, None
        self.start()

    def run(self):
        try:
            self.call()
        except Exception as error:  # told by end()
            self.error = error

    def end(self):
        self.join()
        if self.error:
            raise self.error


class Case:
    """What one case has started. Ended in the reverse order."""

    own_mounts = False  # of the program: what a case mounts is seen by nobody else

    def __init__(self, name):
        self.name = name
        self.stack = contextlib.ExitStack()
        self.logs = []  # (name, path) of processes
        self.checks = []  # called at a good end, while all still runs
        # Root's daemons mount a tmpfs of their own; others need one for their shared memory.
        base = None if os.geteuid() == 0 else "/dev/shm"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cenote-", dir=base))
        self.stack.callback(self.clean)

    def clean(self):
        for line in reversed(pathlib.Path("/proc/self/mounts").read_text().splitlines()):
            path = line.split()[1]
            if path.startswith(f"{self.directory}/"):
                subprocess.run(["umount", "--lazy", path], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def later(self, call, *args):
        """Call it at the end, before what was asked for earlier."""
        self.stack.callback(call, *args)

    def path(self, name):
        path = self.directory / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def note(self, text):
        """A figure, or how far it is."""
        print(f"  {self.name}: {text}", flush=True)

    def takes(self, seconds):
        """At least so long, so that it does not hang if it takes longer than others."""
        if seconds > CASE_LIMIT_S:
            signal.alarm(int(seconds))

    def judge_logs(self):
        for name, path in self.logs:
            log = path.read_text(errors="replace") if path.exists() else ""
            for bad in ("Sanitizer", "runtime error:", "check failed"):
                expect(bad not in log, f"{name} says: " + log[max(log.find(bad) - 200, 0):][:4000])

    def show_logs(self):
        for name, path in self.logs:
            if not path.exists():
                continue
            lines = path.read_text(errors="replace").splitlines()
            print(f"  --- {name}" + (f", the last of {len(lines)} lines" if len(lines) > LOG_LINES else ""))
            print("\n".join("  | " + line[:400] for line in lines[-LOG_LINES:]), flush=True)


def take_own_mounts():
    """What is mounted from now on is nobody else's, and gone with this process, however that ends.
    False: that takes root."""
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], check=False).returncode == 0


def out_of_time(_number, _frame):
    raise Failure("it takes too long: it hangs")


def run(function):
    """None: it passed; a Skip, or what went wrong."""
    t = Case(function.__name__)
    signal.alarm(CASE_LIMIT_S)
    try:
        with t.stack:
            try:
                function(t)
                for check in t.checks:
                    check()
                t.judge_logs()
            except Skip:
                raise
            except BaseException:
                signal.alarm(0)
                traceback.print_exc(file=sys.stdout)
                t.show_logs()
                raise
    except Skip as why:
        return why
    except Exception as error:  # it was told above
        return error
    finally:
        signal.alarm(0)
    return None


def choose(cases, words):
    names = [word for word in words if not word.startswith("-")]
    chosen = [case for case in cases if not names or any(fnmatch.fnmatch(case.__name__, name) for name in names)]
    if not chosen:
        sys.exit(f"no case {' '.join(names)}; there are {' '.join(case.__name__ for case in cases)}")
    return chosen


def rounds(variable, default):
    """How many are asked for by `--rounds N`, which is taken off the command line, or by the environment."""
    if "--rounds" not in sys.argv:
        return int(os.environ.get(variable, default))
    at = sys.argv.index("--rounds")
    count = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return count


def main(*cases):
    """Runs the program: its cases, or one of its roles (client.py)."""
    from . import client
    if client.run_role(sys.argv):
        return
    if "--list" in sys.argv:
        print("\n".join(case.__name__ for case in cases))
        return
    Case.own_mounts = take_own_mounts()
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and the case is cleaned up
    passed = failed = skipped = 0
    for case in choose(cases, sys.argv[1:]):
        began = time.monotonic()
        end = run(case)
        took = f"{case.__name__} ({time.monotonic() - began:.1f} s)"
        if end is None:
            passed += 1
            print(f"ok {took}", flush=True)
        elif isinstance(end, Skip):
            skipped += 1
            print(f"SKIPPED [1] {took}: {end}", flush=True)
        else:
            failed += 1
            print(f"FAILED {took}: {type(end).__name__}: {end}\n  again: {os.path.relpath(sys.argv[0])} "
                  f"{case.__name__}", flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)
