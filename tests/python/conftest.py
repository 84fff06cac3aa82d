"""A daemon for the tests of the Python package, and an end to it.

$CENOTE_BUILD names the build directory (default: build), whose cenoted and package are
tested. Run them by run.py, which knows what a sanitized build needs.
"""

import faulthandler
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("CENOTE_BUILD", "build")
PACKAGES = BUILD / "src/python"
DEADLINE_S = 60  # for an event that is sure to come

# For this process and those that it starts.
sys.path.insert(0, str(PACKAGES))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))

import cenote  # noqa: E402  (the path comes first)


def until(condition, what):
    """Ask until it holds; what it asks is an event, not the time."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what}"


class Caller(threading.Thread):
    """One call in a thread of its own."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call = call
        self.start()

    def run(self):
        try:
            self.result = self.call()
        except Exception as error:  # told by end()
            self.result = error

    def end(self):
        self.join(60)
        assert not self.is_alive(), "the call did not end"
        return self.result


class Node:
    """A daemon, with a directory of its own."""

    def __init__(self, directory, *options):
        self.directory = directory
        self.socket = str(directory / "cenote.sock")
        self.options = options
        self.log = directory / "log"
        self.process = None
        self.start()

    def start(self):
        reader, writer = os.pipe()
        with os.fdopen(reader) as ready, open(self.log, "ab") as log:
            try:
                self.process = subprocess.Popen(
                    # It ends with this process, also when that has no time for clean().
                    ["setpriv", "--pdeathsig", "TERM", BUILD / "cenoted", "--run-dir", self.directory,
                     "--ready-fd", str(writer), "--pool", "64M", *self.options],
                    pass_fds=[writer], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            finally:
                os.close(writer)
            assert ready.readline().startswith("ready"), self.log.read_text()

    def end(self, number=signal.SIGTERM):
        """By its pid; returns the status."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)

    def kill(self):
        self.end(signal.SIGKILL)

    def connect(self, **options):
        return cenote.connect(self.socket, **options)

    def clean(self):
        if self.process.poll() is None:
            self.end()
        shm = self.directory / "shm"
        if os.path.ismount(shm):
            subprocess.run(["umount", "--lazy", shm], check=True)
        log = self.log.read_text(errors="replace")
        for bad in ("Sanitizer", "check failed"):
            assert bad not in log, log


def stats(store):
    return json.loads(store.info("stats"))


def counter(store, name):
    return stats(store)["counters"][name]


def waiting(store):
    """How many requests have ever waited for a key."""
    return counter(store, "waits_key")


@pytest.fixture(scope="session")
def last_words(pytestconfig):
    """Standard error as it was before pytest took it."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        copy = os.dup(2)
    with os.fdopen(copy, "w") as file:
        yield file


@pytest.fixture(autouse=True)
def end_of_patience(last_words):
    """A test that hangs, be it with the interpreter lock in hand, ends the run with a trace."""
    faulthandler.dump_traceback_later(2 * DEADLINE_S, exit=True, file=last_words)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def make_node(tmp_path_factory):
    """Start daemons with options of their own."""
    nodes = []

    def make(*options):
        nodes.append(Node(tmp_path_factory.mktemp("node"), *options))
        return nodes[-1]

    yield make
    for node in nodes:
        node.clean()


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    """The daemon that most tests share."""
    node = Node(tmp_path_factory.mktemp("node"))
    yield node
    node.clean()


@pytest.fixture
def store(node):
    """An empty store; afterwards nothing is held, and the daemon finds itself sound."""
    with node.connect() as store:
        yield store
    with node.connect() as after:
        after.remove_batch([entry.key for entry in after.list()])
        until(lambda: used(after) == 0, "the pool is empty again")
        assert after.info("check").strip() == "ok"


def used(store):
    """Bytes of the pool that anything uses."""
    pool = stats(store)["pool"]
    return pool["size"] - pool["free"]


def forked(function):
    """Runs it in a forked child, which must end well; what it raised is printed there."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        except BaseException:  # whatever it is, the child must not go on as pytest
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
