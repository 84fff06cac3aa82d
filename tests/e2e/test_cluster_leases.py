#!/usr/bin/python3
"""Leases of remote readers, and reclaim under pressure: a lease ends with its transfer, so that
reclaim meets hardly any; where the release is faulted away it meets little else, and all goes on.

Counters of INFO: `examined`, objects that reclaim took off a list to judge; `parked_lease`,
those of them that nothing but a lease kept.
"""

import time

from cluster import DEBUG, Client, Cluster, check, expect, main, put, role, until
from cluster.station import Station, judge, leave_nothing, tell

MIB = 1 << 20
EXAMINED = 2000  # fewer tell nothing


def scans(nodes):
    counters = [node.stats()["counters"] for node in nodes]
    return {name: sum(c[name] for c in counters) for name in counters[0]}


def run_station(t, cluster, **load):
    """The counters of reclaim after a load under which it has enough to do."""
    station = Station(t, cluster, sizes=[(1.0, 66_000, 134_000)], rate=500, **load)
    began = time.monotonic()
    until(lambda: station.read() and scans(cluster)["examined"] >= EXAMINED,
          lambda: f"reclaim has examined only {scans(cluster)['examined']}", 90)
    records = station.drain()
    judge(records, lambda r: False)
    tell(t, records, began)
    seen = scans(cluster)
    t.note(", ".join(f"{name} {seen[name]}" for name in (
        "examined", "freed", "parked_lease", "parked_hold", "parked_both", "parked_pin", "parked_io", "leases",
        "leases_released", "saves", "loads")))
    expect(seen["leases"] > EXAMINED / 4, "little was leased")
    expect(seen["leases_released"] == seen["leases"], "a lease was not given back")
    leave_nothing(t, cluster)
    return seen


def station_parks_hardly_any(t):
    """Live objects take most of the pools, and the copies of those that were read the rest: they go
    all the time."""
    cluster = Cluster(t, 2)
    seen = run_station(t, cluster, depth=60, lag=200)
    expect(seen["parked_lease"] * 100 < seen["examined"], "1 % or more of what was examined was only leased")


def station_on_disk_parks_few(t):
    """Live objects of 1.5 times the pools; what does not fit lies on disk. What is loaded for a
    remote reader is free for the asking but for his lease, and the first that reclaim meets."""
    cluster = Cluster(t, 2, "--disk-size", "1G", disk=True)
    seen = run_station(t, cluster, depth=160, lag=480)
    expect(seen["loads"] > EXAMINED / 8, "little was on disk")
    expect(seen["parked_lease"] * 20 < seen["examined"], "a twentieth of what was examined was only leased")


@role
def reading(me, count, size):
    """Get each as it comes."""
    for number in range(count):
        check(me.store.get(f"c/{number}", wait=True, timeout=60), f"c/{number}", 1, size)
        me.say(number)


def flow_of_cache_objects(t, cluster, count):
    """Objects that the other node reads at once, and which then leave for others."""
    a, b = cluster
    store, size = a.connect(), MIB
    reader = Client(t, b, "reading", count, size)
    for number in range(count):
        put(store, f"c/{number}", 1, size, timeout=60)
        reader.heard(number)
    reader.end()
    return scans([a])


def a_release_makes_room_at_once(t):
    cluster = Cluster(t, 2, "--pool", "32M", "--lease-min", "500ms", build=DEBUG)
    seen = flow_of_cache_objects(t, cluster, 200)
    t.note(f"examined {seen['examined']}, freed {seen['freed']}, lease only {seen['parked_lease']}")
    expect(seen["examined"] >= 100, "there was no pressure")
    expect(seen["parked_lease"] * 100 < seen["examined"], "1 % or more of what was examined was only leased")
    expect(cluster[0].stats()["pool"]["leases"] == 0, "a lease is left")


def without_release_they_dominate_and_nothing_breaks(t):
    cluster = Cluster(t, 2, "--pool", "32M", "--lease-min", "500ms", build=DEBUG)
    armed = cluster.connect()
    for store in armed:
        expect(store.inject_fault_local_master("NodeBeforeReleaseLease", "return_error", -900, 1, -1) == 0, "armed")
    seen = flow_of_cache_objects(t, cluster, 200)
    fired = sum(store.get_fault_status_local_master("NodeBeforeReleaseLease")["fired"] for store in armed)
    t.note(f"examined {seen['examined']}, freed {seen['freed']}, lease only {seen['parked_lease']}, hold "
           f"{seen['parked_hold']}, both {seen['parked_both']}; {fired} releases failed")
    expect(fired >= 190, "the releases did not fail")
    expect(seen["parked_lease"] * 3 > seen["examined"], "leases do not dominate")
    expect(seen["parked_lease"] > 10 * (seen["parked_hold"] + seen["parked_both"]), "leases do not dominate")
    # They end by themselves, and what they kept with them.
    for store in armed:
        store.inject_fault_local_master("NodeBeforeReleaseLease", "reset")
        store.remove_prefix("c/")
    for node in cluster:
        until(lambda: node.used() == 0 and node.stats()["pool"]["leases"] == 0,
              lambda: f"{node.name} uses {node.used()} bytes, {node.stats()['pool']['leases']} leases are left")


main(station_parks_hardly_any, station_on_disk_parks_few, a_release_makes_room_at_once,
     without_release_they_dominate_and_nothing_breaks)
