"""The main job over several nodes: `cenote bench station`, whose ranks are processes on all of them.
A rank that is killed is no failure of it: another goes on in its place when its node is back.

    job = Job(t, cluster, "--replicas", "2", "--for", "60s")
    kill_node(cluster[0], [job])
    ...
    said = job.end()   # its summary; every call of it went well
"""

import json
import os
import pathlib
import signal

from .case import Failure, expect, until
from .programs import BUILD, Process

STEPS = 6000  # more than are made in the time that is given


class Job:
    def __init__(self, t, nodes, *options, ranks=6):
        """Ranks are spread over the nodes in turn."""
        self.nodes, self.ranks = list(nodes), ranks
        self.name = "job-" + "".join(node.name for node in nodes)
        self.text = t.path("jobs") / self.name
        errors = t.path("jobs") / f"{self.name}-log"
        t.logs.append((self.name, errors))
        with open(self.text, "wb") as out, open(errors, "ab") as log:
            self.process = Process(t, self.name, [
                BUILD / "cenote", "bench", "station", "--json", "--restart", "--nodes",
                ",".join(node.socket for node in nodes), "--ranks", str(ranks), "--steps", str(STEPS), "--timeout", "30s",
                *options], stdout=out, stderr=log)

    def pids(self, node):
        """Of its ranks that are clients of the node."""
        pids = [client["pid"] for client in node.stats()["clients"]]
        return [pid for pid in pids if parent_and_state(pid)[0] == self.process.pid]

    def is_at_work(self):
        """All its ranks are attached."""
        self.look()
        return sum(len(self.pids(node)) for node in self.nodes if node.lives()) == self.ranks

    def look(self):
        expect(self.process.lives(), f"{self.name} has ended: {self.text.read_text()[-2000:]}")

    def end(self, seconds=60):
        """Its own end: every call went well, no object was lost, no byte was wrong. Whether the nodes are
        empty then it cannot tell, as it is not alone there."""
        status = self.process.wait(seconds)
        text = self.text.read_text()
        try:
            said = json.loads(text)
        except ValueError as error:
            raise Failure(f"{self.name} ended with status {status}, and said: {text[-2000:]}") from error
        wanted = {"failed_puts": 0, "failed_gets": 0, "failed_removes": 0, "lost_objects": 0, "wrong_bytes": 0,
                  "dead_ranks": 0}
        expect(said.items() >= wanted.items() and said["puts"] == said["removes"] > 0, f"{self.name}: {text[:2000]}")
        return said


def kill_node(node, jobs):
    """Its daemon and all ranks there die at once, and its pool is gone. The ranks stand still before: they
    are not to see the end of the daemon, nor others to attach to it in their place. Returns how many."""
    pids = [pid for job in jobs for pid in job.pids(node)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    until(lambda: all(parent_and_state(pid)[1] == "T" for pid in pids), "they stand still")
    node.kill()
    node.wipe()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


def parent_and_state(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return 0, "X"
    state, parent = stat.rpartition(")")[2].split()[:2]
    return int(parent), state
