"""Clusters of real processes: daemons, a Redis or a Redis Cluster between them, clients, networks.

    from cluster import Cluster, check, main, put

    def a_key_is_seen_on_every_node(t):
        cluster = Cluster(t, 3)
        stores = [node.connect() for node in cluster]
        put(stores[0], "key", 1, 4096, softpin=True)
        for store in stores:
            check(store.get("key"), "key", 1, 4096)

    main(a_key_is_seen_on_every_node)

A test program runs all its cases, or those that are named; `--list` says which there are. The
last line is `N passed, N failed[, N skipped]`. Each case has a directory of its own; whatever
it started, and however it ended, the harness then ends what is left of it by pid, looks into
the logs of its daemons for what a sanitizer or a failed CHECK said, and removes the directory.
Nobody sleeps for time: a case waits for an event, or asks until an answer comes, by a deadline.

$CENOTE_BUILD names the build directory of daemons and clients (build), $CENOTE_DEBUG_BUILD the
one with fault points (build-debug). $CENOTE_DAEMONS=build-debug has sanitized daemons everywhere.

    case.py       cases: what they start and leave, and the closing line
    programs.py   where the products of a build lie; processes, by pid
    redis.py      a Redis, and a Redis Cluster
    node.py       daemons, one and several
    client.py     clients that are processes of their own
    pattern.py    bytes that tell which object they are of
    network.py    hosts whose links can be cut: network namespaces
    station.py    the load: ranks put, others read and remove
    job.py        the main job of the tools, over several nodes
"""

from .case import Aside, Failure, Skip, all_done, expect, main, rounds, until
from .client import Client, role
from .job import Job
from .network import Network
from .node import Cluster, Node
from .pattern import check, pattern, put
from .programs import BUILD, DEBUG, ROOT, Process, cenote
from .redis import Redis, RedisCluster

__all__ = ["BUILD", "DEBUG", "ROOT", "Aside", "Client", "Cluster", "Failure", "Job", "Network", "Node", "Process",
           "Redis", "RedisCluster", "Skip", "all_done", "cenote", "check", "expect", "main", "pattern", "put", "role",
           "rounds", "until"]
