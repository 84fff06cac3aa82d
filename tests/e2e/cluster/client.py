"""Clients that are processes of their own: the test program again, as one of its roles, at the
other end of a channel of JSON lines. The test waits to hear something and says what to do next.

    @role
    def reader(self, key):
        with self.store.get(key) as buffer:
            self.say(len(buffer))

    assert Client(t, node, "reader", "key").hear() == 6
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time

from .case import DEADLINE_S, Failure, expect
from .programs import BUILD, PYTHON, Process, cenote, environment

ROLES = {}


def role(function):
    ROLES[function.__name__] = function
    return function


class Self:
    """The client's own end."""

    def __init__(self, sockets):
        # One store a node; `store` is that of the first.
        self.stores = [cenote.connect(socket, timeout=60) for socket in sockets]
        self.store = self.stores[0] if self.stores else None

    @staticmethod
    def say(text):
        print(json.dumps(text), flush=True)

    @staticmethod
    def hear():
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)  # the test has ended
        return json.loads(line)

    @staticmethod
    def was_told():
        """Whether something is there to be heard, now."""
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
            return bool(selector.select(0))


def run_role(argv):
    """True: the program was started as a role, which is done."""
    if len(argv) < 3 or argv[1] != "--role":
        return False
    order = json.loads(argv[2])
    me = Self(order["sockets"])
    ROLES[order["role"]](me, *order["args"])
    for store in me.stores:
        with contextlib.suppress(cenote.CenoteError):
            store.close()
    return True


class Client:
    """A role, attached to a node or to several."""

    serial = 0

    def __init__(self, t, node, name, *args, build=BUILD):
        nodes = node if isinstance(node, (list, tuple)) else [node] if node else []
        order = {"role": name, "sockets": [n.socket for n in nodes], "args": args}
        Client.serial += 1
        self.name = f"{name}-{Client.serial}"
        log = t.path("clients") / self.name
        t.logs.append((self.name, log))
        with open(log, "ab") as errors:
            self.process = Process(t, self.name, [PYTHON, os.path.abspath(sys.argv[0]), "--role", json.dumps(order)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                   env=environment(build))
        self.rest = b""

    def say(self, text):
        try:
            self.process.popen.stdin.write(json.dumps(text).encode() + b"\n")
            self.process.popen.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"{self.name} has ended, with status {self.process.wait()}") from None

    def hear(self, seconds=DEADLINE_S):
        """What it says next."""
        end = time.monotonic() + seconds
        pipe = self.process.popen.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                left = end - time.monotonic()
                expect(left > 0 and selector.select(left), f"{self.name} said nothing for {seconds} s")
                more = os.read(pipe.fileno(), 1 << 20)
                if not more:
                    raise Failure(f"{self.name} has ended, with status {self.process.wait()}")
                self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def has_said(self):
        """Whether it has said something that was not heard yet, now."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.popen.stdout, selectors.EVENT_READ)
            return b"\n" in self.rest or bool(selector.select(0))

    def heard(self, text, seconds=DEADLINE_S):
        """What it says next must be this."""
        got = self.hear(seconds)
        expect(got == text, f"{self.name} said {got!r}, not {text!r}")

    def end(self, seconds=DEADLINE_S):
        """It ends by itself, and well."""
        status = self.process.wait(seconds)
        why = signal.Signals(-status).name if status < 0 else status
        expect(status == 0, f"{self.name} ended with {why}")

    def kill(self):
        self.process.kill()
