"""Where the products of a build lie, and processes that are started and ended by pid."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

from .case import DEADLINE_S, Failure

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("CENOTE_BUILD", "build")
DEBUG = ROOT / os.environ.get("CENOTE_DEBUG_BUILD", "build-debug")
DAEMONS = ROOT / os.environ.get("CENOTE_DAEMONS", BUILD)
PYTHON = "/usr/bin/python3"  # the one that the package is built for

sys.path.insert(0, str(BUILD / "src/python"))
try:
    import cenote  # pylint: disable=import-error
except ImportError as error:
    print(f"the package of {BUILD} cannot be loaded (meson configure -Dpython=enabled): {error}\n0 passed, 1 failed")
    sys.exit(1)


def environment(build):
    """Of a client of this build: in a sanitized one the interpreter itself is not, so that the
    sanitizer is loaded before it, and does not judge what the interpreter leaks."""
    env = {**os.environ, "CENOTE_BUILD": str(build), "PYTHONPATH": str(build / "src/python"),
           "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{build}:{os.environ['PATH']}"}
    env.pop("CENOTE_SOCKET", None)
    module = build / "src/python/cenote/_cenote.abi3.so"
    text = subprocess.run(["ldd", module], stdout=subprocess.PIPE, text=True, check=False).stdout
    first = re.findall(r"=> (\S*lib[at]san\.so\S*)", text)
    if first:
        options = os.environ.get("ASAN_OPTIONS", "")
        env |= {"LD_PRELOAD": " ".join(first), "PYTHONMALLOC": "malloc",
                "ASAN_OPTIONS": f"{options}:detect_leaks=0"}
    return env


def free_port(host="127.0.0.1", reach=0):
    """A port that nobody has; with `reach`, nor the one so far above it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        with socket.socket(family) as first, socket.socket(family) as second:
            first.bind((host, 0))
            port = first.getsockname()[1]
            try:
                if reach:
                    second.bind((host, port + reach))
                return port
            except (OSError, OverflowError):
                continue


class Process:
    """A program of a case. It ends with the test, also when that has no time for its end."""

    def __init__(self, t, name, argv, *, host=None, log=None, **options):
        """`host`: in its network (network.py). `log`: where its output goes, told at a failure."""
        self.name = name
        words = ["setpriv", "--pdeathsig", "KILL", *(host.enter() if host else []), *argv]
        options.setdefault("stdin", subprocess.DEVNULL)
        if log is None:
            self.popen = subprocess.Popen(words, **options)
        else:
            with open(log, "ab") as file:
                self.popen = subprocess.Popen(words, stdout=file, stderr=file, **options)
        t.later(self.end)

    @property
    def pid(self):
        return self.popen.pid

    def lives(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, seconds=DEADLINE_S):
        """The status, of an end that comes by itself."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} has not ended within {seconds} s") from None

    def kill(self):
        """As by kill -9; it must have lived till then."""
        self.popen.kill()
        status = self.wait()
        if status != -signal.SIGKILL:
            raise Failure(f"{self.name} had ended before, with status {status}")

    def end(self):
        """Whatever state it is in. Twice is fine."""
        if self.lives():
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe:
                pipe.close()
