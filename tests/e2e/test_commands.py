#!/usr/bin/python3
"""What `cenote put`, `ls`, `rm` and others do to objects, and print, and what they refuse. One case per
function; `test_commands.py NAME` runs one. Each has a node of its own.

Runs the programs of the build directory that $CENOTE_BUILD names, build/ if not set.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import cases  # noqa: E402  (the path comes first)

BUILD = ROOT / os.environ.get("CENOTE_BUILD", "build")
KEYS = ("a/1", "a/2", "a/10", "b/1", "c")


def until(condition):
    """Some event of another process."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


class Node:
    """A daemon, with a directory of its own, and the command with its socket."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.env = {**os.environ, "CENOTE_SOCKET": str(self.directory / "cenote.sock")}
        reader, writer = os.pipe()
        with os.fdopen(reader) as ready, open(self.directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                # It ends with this process, too.
                ["setpriv", "--pdeathsig", "TERM", BUILD / "cenoted", "--run-dir", self.directory,
                 "--ready-fd", str(writer), "--pool", "64M"],
                pass_fds=[writer], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            os.close(writer)
            assert ready.readline().startswith("ready"), (self.directory / "log").read_text()

    def run(self, *args, status=0, data=b""):
        """(standard output, standard error) of `cenote ARGS`."""
        done = subprocess.run([BUILD / "cenote", *args], input=data, capture_output=True, check=False,
                              env=self.env, timeout=60)
        if done.returncode != status:
            raise AssertionError(f"cenote {args}: status {done.returncode}, not {status}: {done.stdout}{done.stderr}")
        return done.stdout, done.stderr.decode()

    def fill(self):
        for key in KEYS:
            self.run("put", key, data=key.encode())

    def listed(self, *args):
        return [entry["key"] for entry in json.loads(self.run("ls", "--json", *args)[0])]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        shm = self.directory / "shm"
        if os.path.ismount(shm):
            subprocess.run(["umount", "--lazy", shm], check=True)
        log = (self.directory / "log").read_text(errors="replace")
        assert status == 0 and "Sanitizer" not in log and "check failed" not in log, log


def case_put_replace(node):
    node.run("put", "k", data=b"old")
    said = node.run("put", "k", data=b"new", status=1)[1]
    assert "EXISTS" in said, said
    assert node.run("get", "k")[0] == b"old"
    node.run("put", "--replace", "k", data=b"new")
    assert node.run("get", "k")[0] == b"new"
    file = node.directory / "file"
    file.write_bytes(bytes(300_000))
    node.run("put", "--replace", "--softpin", "k", str(file))
    assert node.run("get", "k")[0] == bytes(300_000)
    stat = json.loads(node.run("stat", "--json", "k")[0])
    assert stat["softpin"] is True and stat["size"] == 300_000, stat
    node.run("put", "--replace", "absent", data=b"1")
    assert node.run("get", "absent")[0] == b"1"


def case_put_of_a_file_that_hides_its_size(node):
    kernel = pathlib.Path("/proc/version").read_bytes()
    node.run("put", "k", "/proc/version")
    assert kernel and node.run("get", "k")[0] == kernel
    (node.directory / "empty").touch()
    node.run("put", "empty", str(node.directory / "empty"))
    assert node.run("get", "empty")[0] == b""


def case_put_of_a_file_that_grows(node):
    """While the put waits for room; it has asked for the file's size by then."""
    file = node.directory / "file"
    file.write_bytes(bytes(40 << 20))
    node.run("put", "--softpin", "filler", str(file))
    with subprocess.Popen([BUILD / "cenote", "put", "--timeout=60s", "k", str(file)], env=node.env,
                          stderr=subprocess.PIPE, text=True) as put:
        until(lambda: json.loads(node.run("stat", "--json")[0])["pool"]["waiting"] == 1)
        with open(file, "ab") as end:
            end.write(b"more")
        node.run("rm", "filler")
        said = put.communicate(timeout=60)[1]
    assert put.returncode == 1 and "became longer while it was read" in said, said
    assert node.listed() == []


def case_empty_names_of_sockets(node):
    """Are not those of the default node, nor of $CENOTE_SOCKET."""
    for command in (["ls"], ["bench", "hit", "--quick"]):
        said = node.run(*command, "--socket=", status=1)[1]
        assert "BAD_ARGUMENT: socket path of 0 bytes" in said, said
    said = node.run("bench", "station", f"--nodes={node.directory}/cenote.sock,", status=2)[1]
    assert "--nodes=" in said and "a name is empty" in said, said


def case_log_of_the_station_is_opened_first(node):
    said = node.run("bench", "station", "--steps=4", "--log=/nowhere/log", status=1)[1]
    assert "/nowhere/log: No such file or directory" in said, said
    assert json.loads(node.run("stat", "--json")[0])["counters"]["puts"] == 0, "the run began"


def case_ready_fd_must_be_open(node):
    """Else it would be one of the daemon's own files. It is looked at before all that could fail, too."""
    for fd, said in (("77", "--ready-fd=77: a descriptor is needed that was open at the start"),
                     ("-2", "--ready-fd=-2: a whole number from -1 to 2147483647 is needed"),
                     ("2147483648", "--ready-fd=2147483648: a whole number from -1 to 2147483647 is needed")):
        done = subprocess.run([BUILD / "cenoted", "--run-dir=/proc/none", "--shm-dir=/proc/none", "--ready-fd", fd],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and said in done.stderr, done.stderr


def case_ls_regex(node):
    node.fill()
    assert node.listed() == sorted(KEYS)
    assert node.listed("--regex", "^a/.$|c") == ["a/1", "a/2", "c"]
    assert node.listed("a/", "--regex=1") == ["a/1", "a/10"]
    assert node.listed("--regex=nothing") == []
    said = node.run("ls", "--regex", "/1$")[0].decode()
    assert said.splitlines()[-1].startswith("2 objects, ") and "b/1" in said, said
    said = node.run("ls", "--regex", "(", status=1)[1]
    assert said.startswith('cenote: ls: BAD_ARGUMENT: ') and '"("' in said, said


def case_rm_prefix(node):
    node.fill()
    assert node.run("rm", "--prefix", "a/1")[0] == b"removed 2 objects\n"
    assert node.run("rm", "--prefix=a/1")[0] == b"removed 0 objects\n"
    assert node.listed() == ["a/2", "b/1", "c"]
    assert node.run("rm", "c", "x", "--prefix", "b")[0] == b'absent "x"\nremoved 1 of 2\nremoved 1 objects\n'
    assert node.run("rm", "--prefix", "")[0] == b"removed 1 objects\n"
    assert node.listed() == []


def case_rm_regex(node):
    node.fill()
    assert node.run("rm", "--regex", "^a/[0-9]$")[0] == b"removed 2 objects\n"
    assert node.run("rm", "--regex", "^a/[0-9]$")[0] == b"removed 0 objects\n"
    assert node.listed() == ["a/10", "b/1", "c"]
    said = node.run("rm", "--regex", "[a", status=1)
    assert said[0] == b"" and said[1].startswith("cenote: rm: BAD_ARGUMENT: "), said
    said = node.run("rm", "--regex=a", "--prefix=b", status=2)[1]
    assert "do not go together" in said, said
    assert node.listed() == ["a/10", "b/1", "c"]


def with_node(case):
    with tempfile.TemporaryDirectory(prefix="cenote-commands-") as directory:
        node = Node(directory)
        try:
            case(node)
        finally:
            node.end()


if __name__ == "__main__":
    sys.exit(cases.main(globals(), with_node))
