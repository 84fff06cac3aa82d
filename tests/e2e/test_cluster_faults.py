#!/usr/bin/python3
"""The same points at which stores of this kind were seen to fail, held open by faults in the
debug build's daemons and clients: a load that is slow, a put that is slow, a list of replicas
that cannot be had again, a load that fails within a batch (field case K18-07), a call that takes
its time while others wait (K4-01).
"""

import time

from cluster import DEBUG, Client, Cluster, all_done, cenote, check, expect, main, pattern, put, role, until
from cluster.node import GONE_S, expect_error, press

MIB = 1 << 20
IN_COPY = "ClientLocalCopyAfterPutStart"
REFRESH = "ClientLocalCopyBeforeRefreshReplicaListRemote"


def arm(store, name, action, value=0, from_hit=1, times=1):
    err = store.inject_fault_local_master(name, action, value, from_hit, times)
    expect(err == 0, f"{name}: {err}")


def fired(store, name):
    return store.get_fault_status_local_master(name)["fired"]


@role
def getter(me, key, version, size, wait):
    """How a get ended."""
    me.say("here")
    me.hear()
    try:
        check(me.store.get(key, wait=wait, timeout=30), key, version, size)
        me.say("ok")
    except cenote.CenoteError as error:
        me.say(type(error).__name__)


def getters(t, node, count, *args):
    """So many clients of a node, which wait for the word."""
    found = [Client(t, node, "getter", *args) for _ in range(count)]
    for one in found:
        one.heard("here")
    return found


def release_all(clients):
    for one in clients:
        one.say("go")


def all_say(clients, text):
    for one in clients:
        one.heard(text)
        one.end()


def clients_join_a_load_that_sleeps(t):
    """The load has its run and sleeps for 3 s; whoever asks meanwhile joins it and gets the bytes."""
    cluster = Cluster(t, 2, build=DEBUG)
    a, b = cluster
    here, there = cluster.connect()
    put(here, "k", 1, 4 * MIB, softpin=True)
    first, others = getters(t, b, 1, "k", 1, 4 * MIB, False), getters(t, b, 8, "k", 1, 4 * MIB, False)
    arm(there, IN_COPY, "sleep", 3000)
    release_all(first)
    until(lambda: fired(there, IN_COPY) == 1, "the load sleeps")
    joined = b.cluster("fetches_joined")
    release_all(others)
    until(lambda: b.cluster("fetches_joined") == joined + 8, "the others have joined")
    expect(not any(one.has_said() for one in first + others), "somebody was answered while the load slept")
    # A get of another key does not wait for it.
    put(here, "other", 1, MIB, softpin=True)
    check(there.get("other"), "other", 1, MIB)
    expect(not any(one.has_said() for one in first + others), "the other key waited for the load")
    all_say(first + others, "ok")
    expect(b.cluster("fetches") == 2, f"{b.cluster('fetches')} loads of two keys")
    expect(a.cluster("asks_served") > 0 and b.stats()["pool"]["objects"] == 2, "there is one copy of each")


def a_load_that_fails_after_its_start_is_no_object(t):
    """The error reaches who asked, unchanged; nothing half-done is left, and the next get works."""
    cluster = Cluster(t, 2, build=DEBUG)
    here, there = cluster.connect()
    put(here, "k", 1, 4 * MIB, softpin=True)
    arm(there, IN_COPY, "return_error", -800, 1, -1)
    expect_error(lambda: there.get("k"), cenote.TransferFailed)
    expect(fired(there, IN_COPY) >= 1, "the fault has not fired")
    until(lambda: cluster[1].used() == 0, "the run is given back")
    until(lambda: cluster[0].stats()["pool"]["leases"] == 0, "the lease is given back")
    arm(there, IN_COPY, "reset")
    check(there.get("k"), "k", 1, 4 * MIB)


@role
def slow_putter(me, key, version, size):
    expect(me.store.inject_fault(IN_COPY, "sleep", 3000) == 0, "armed")
    me.say("here")
    me.hear()
    put(me.store, key, version, size, softpin=True)
    me.say("ok")


def a_put_that_sleeps_is_waited_for_or_absent(t):
    """Half of the bytes are copied: with `wait` a get gets all of them, without NOT_FOUND; none
    is told that anything is not ready."""
    cluster = Cluster(t, 2, build=DEBUG)
    a = cluster[0]
    size = 2 * MIB
    putter = Client(t, a, "slow_putter", "k", 1, size, build=DEBUG)
    putter.heard("here")
    waiting = [one for node in cluster for one in getters(t, node, 3, "k", 1, size, True)]
    asking = [one for node in cluster for one in getters(t, node, 3, "k", 1, size, False)]
    release_all([putter])
    until(lambda: a.stats()["pool"]["writing"] > 0, "the put has begun")
    release_all(waiting + asking)
    for one in asking:
        one.heard("NotFound")
        one.end()
    expect(not any(one.has_said() for one in waiting + [putter]), "somebody was answered while the put slept")
    all_say(waiting, "ok")
    putter.heard("ok")
    putter.end()


def the_disk_of_the_keeper_serves_when_the_list_cannot_be_had(t):
    """B, whose copy in memory the directory names, dies with its pool while A asks it; asking the
    directory again fails with -900; the bytes come from the disk of C."""
    cluster = Cluster(t, 3, "--pool", "32M", "--disk-size", "1G", disk=True, build=DEBUG)
    a, b, c = cluster
    at_a, at_b, at_c = cluster.connect()
    put(at_c, "k", 1, 4 * MIB, softpin=True)
    check(at_b.get("k"), "k", 1, 4 * MIB)
    press(c, at_c, ["k"])
    loads = c.counter("loads")
    arm(at_a, REFRESH, "return_error", -900)
    reader, = getters(t, a, 1, "k", 1, 4 * MIB, False)
    b.suspend()  # so that it has not answered when it dies
    release_all([reader])
    until(lambda: a.cluster("fetches_under_way") > 0 or reader.has_said(), "A fetches")
    b.kill()
    b.wipe()
    all_say([reader], "ok")
    status = at_a.get_fault_status_local_master(REFRESH)
    expect(status["fired"] == 1, f"the point was hit {status['hits']} times and fired {status['fired']}")
    expect(c.counter("loads") == loads + 1, "the bytes did not come from C's disk")


def one_key_of_a_batch_fails_alone(t):
    """K18-07: a load that fails within a batch of tensors is an error there, and data nowhere."""
    import numpy
    cluster = Cluster(t, 2, build=DEBUG)
    here, there = cluster.connect()
    keys = [f"t/{i}" for i in range(6)]
    tensors = [numpy.frombuffer(pattern(key, 1, MIB), numpy.float32).reshape(512, 512) for key in keys]
    all_done(here.put_tensor_batch(keys, tensors, softpin=True))
    for round_number in range(6):
        arm(there, IN_COPY, "return_error", -801, 1 + round_number % 3, 1)
        got = there.get_tensor_batch(keys)
        failed = [i for i, one in enumerate(got) if isinstance(one, cenote.CenoteError)]
        expect(fired(there, IN_COPY) == 1, "the fault has not fired")
        for i, one in enumerate(got):
            if i not in failed:
                expect(one.tobytes() == tensors[i].tobytes(), f"wrong bytes in {keys[i]}")
        expect(len(failed) == 1 and isinstance(got[failed[0]], cenote.Corrupt),
               f"{[type(got[i]).__name__ for i in failed]}")
        del got
        arm(there, IN_COPY, "reset")
        for i, one in enumerate(there.get_tensor_batch(keys)):
            expect(one.tobytes() == tensors[i].tobytes(), f"wrong bytes in {keys[i]} afterwards")
        expect(here.remove_batch(keys) == [True] * 6, "removed")
        all_done(here.put_tensor_batch(keys, tensors, softpin=True))


def a_slow_call_starves_nobody(t):
    """K4-01: a load sleeps for longer than a node may be silent; its node's beats go on, its other
    clients are served, and nobody is taken for dead."""
    cluster = Cluster(t, 2, build=DEBUG)
    b = cluster[1]
    here, there = cluster.connect()
    idle = b.connect()
    put(here, "k", 1, MIB, softpin=True)
    put(here, "calm", 1, 1000, softpin=True)
    suspects = cluster.sum("suspects")
    attached = b.counter("attached")
    slow = getters(t, b, 1, "k", 1, MIB, False)
    arm(there, IN_COPY, "sleep", 2 * GONE_S * 1000)
    release_all(slow)
    until(lambda: fired(there, IN_COPY) == 1, "the load sleeps")
    served, began = 0, time.monotonic()
    while not slow[0].has_said():
        key = f"meanwhile/{served}"
        put(here, key, 1, 100_000)
        check(there.get(key), key, 1, 100_000)
        expect(here.remove(key), "removed")
        served += 1
    all_say(slow, "ok")
    expect(time.monotonic() - began > GONE_S, "it did not sleep for long enough")
    check(idle.get("calm"), "calm", 1, 1000)
    t.note(f"{served} rounds meanwhile")
    expect(served > 10, "the others were not served")
    expect(cluster.sum("suspects") == suspects, "a node was taken for dead")
    expect(b.counter("attached") == attached + 1, "a client had to attach again")


main(clients_join_a_load_that_sleeps, a_load_that_fails_after_its_start_is_no_object,
     a_put_that_sleeps_is_waited_for_or_absent, the_disk_of_the_keeper_serves_when_the_list_cannot_be_had,
     one_key_of_a_batch_fails_alone, a_slow_call_starves_nobody)
