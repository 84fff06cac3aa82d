#!/usr/bin/python3
"""The main jobs as a user runs them: the station, its planted fault, the replay of a trace;
and a short run of each bench, which must work, however fast it is.

Runs the release build, build/. The public traces lie in ../shared and are no part of the tree:
where they are absent their replays are skipped, and say so.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CENOTE = ROOT / "build" / "cenote"
TRACES = ROOT.parent / "shared" / "traces"


class Skip(Exception):
    pass


def run(*args, status=0):
    """The JSON that `cenote ARGS --json` prints."""
    done = subprocess.run([CENOTE, *args, "--json"], capture_output=True, text=True, check=False)
    if done.returncode != status:
        raise AssertionError(f"status {done.returncode}, not {status}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def expect(result, **wanted):
    for name, value in wanted.items():
        assert result[name] == value, f"{name} is {result[name]}, not {value}"


def station():
    result = run("bench", "station", "--pool", "1G", "--steps", "40")
    expect(result, failed_puts=0, failed_gets=0, lost_objects=0, wrong_bytes=0, steps=40)
    assert result["bytes_in_use_end"] == result["bytes_in_use_base"], result
    assert result["puts"] > 40 * 8 * 34, result


def a_flipped_byte_is_seen():
    result = run("bench", "station", "--pool", "256M", "--steps", "5", "--flip-byte", status=1)
    expect(result, wrong_bytes=1, failed_puts=0)


def on_disk(*args, status=0):
    """A station of twice the live bytes that the pool has, which leaves nothing behind."""
    with tempfile.TemporaryDirectory() as directory:
        disk = pathlib.Path(directory) / "disk"
        result = run("bench", "station", "--pool", "256M", "--live", "200%", "--disk", str(disk), *args, status=status)
        assert not disk.exists(), [*disk.iterdir()]
    expect(result, failed_puts=0, failed_gets=0, lost_objects=0, live_permille=2000)
    for use in ("bytes_in_use", "disk_bytes", "disk_used"):
        assert result[f"{use}_end"] == result[f"{use}_base"] == 0, (use, result)
    assert result["bytes_written_out"] > 256 << 20, result
    return result


def station_on_disk():
    with tempfile.NamedTemporaryFile("r") as log:
        result = on_disk("--steps", "24", "--reads", "1", "--log", log.name)
        lines = [line.split() for line in log]
    expect(result, wrong_bytes=0, steps=24)
    events = [line[2] for line in lines]
    assert events.count("put") == events.count("read") == events.count("remove") == result["puts"], result
    assert sum(int(line[4]) for line in lines if line[2] == "read") == result["get_bytes"], result
    assert 0 <= result["swapped_share_optimal_whole_pool"] <= result["swapped_share_optimal"], result
    # No node reads back less than one that knows what comes, and has all of the pool.
    assert result["swapped_share"] >= result["swapped_share_optimal_whole_pool"], result


def a_flipped_byte_is_seen_on_disk():
    expect(on_disk("--steps", "12", "--flip-byte", status=1), wrong_bytes=1)


def bench(name, *keys, options=()):
    """A short run: these figures are there, and they and all times are above 0."""
    result = run("bench", name, "--quick", "--runs", "1", *options)
    expect(result, profile=name, runs=1)
    assert result["page_size"] >= 4096, result
    for key in keys:
        assert result[key] > 0, f"{key} is {result[key]}"
    for row, times in result["rows"].items():
        assert times["count"] > 0 and 0 < times["p50_us"] <= times["p99_us"] <= times["p999_us"], (row, times)
    return result


def bench_hit():
    result = bench("hit", "ratio_rtt_to_hit_1k", "ratio_rtt_to_hit_100k", "ratio_hit_64_to_1_clients",
                   "hit_cpu_ns_1_client", "hit_cpu_ns_8_clients", "hit_cpu_ns_64_clients")
    expect(result, syscalls_per_hit=0)


def bench_put():
    bench("put", "ratio_1m", "ratio_64m", "ratio_batch_64x1m", "ratio_4k_to_rtt", "ratio_stream_8")


def bench_get():
    bench("get", "ratio_1m", "ratio_64m")


def bench_batch():
    bench("batch", "ratio_put_64x1m", "ratio_get_into_64x1m", "ratio_put_1k_each_to_batch")


def bench_clients():
    result = bench("clients", "hit_cpu_ns_1_clients", "hit_cpu_ns_250_clients", "remove_ns_250_clients")
    assert "attach_250_clients" in result["rows"], result


def bench_growth():
    with tempfile.TemporaryDirectory() as directory:
        chart = pathlib.Path(directory) / "growth.svg"
        done = subprocess.run([CENOTE, "bench", "growth", "--quick", "--runs", "1", "--svg", chart],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        root = xml.etree.ElementTree.parse(chart).getroot()
        assert root.tag.endswith("svg") and len(root.findall(".//{*}polyline")) == 5, done.stdout
    result = bench("growth", "ratio_hit_last_to_first", "bytes_beside_per_object")
    assert result["bytes_beside_per_object"] < 10000, result


def bench_reclaim():
    bench("reclaim", "examined_per_freed_release", "examined_per_freed_ttl", "scans_that_freed_release",
          "scans_that_freed_ttl", "waited_ttl", "room_after_release_p99_to_rtt_p99")


def bench_disk():
    with tempfile.TemporaryDirectory() as directory:
        bench("disk", "ratio_offload_16m", "ratio_load_16m", "ratio_offload_256k", "ratio_load_256k",
              options=("--pool", "256M", "--disk", directory))
        assert not os.listdir(directory), os.listdir(directory)


def bench_remote():
    for options in ((), ("--tls",)):
        bench("remote", "ratio_16m_to_tcp", "ratio_4k_to_rtt", "directory_ops_per_s", "redis_benchmark_set_per_s",
              options=("--pool", "256M", *options))


def replayed(requests):
    """What a node does with them that has room for all: hits of prefixes, and blocks behind those that it has."""
    there, hits, exist = set(), 0, 0
    for ids in requests:
        prefix = next((i for i, block in enumerate(ids) if block not in there), len(ids))
        hits += prefix
        exist += sum(block in there for block in ids[prefix:])
        there.update(ids)
    touches = sum(map(len, requests))
    return {"requests": len(requests), "touches": touches, "distinct_blocks": len(there), "prefix_hits": hits,
            "put_exists": exist, "puts": touches - hits - exist}


def replay_of_conversations():
    """Eight grow by turns, each with a block that they share at its head and one in the middle of it: what is
    there behind a missing block is put, and exists. With less room than they need some is dropped."""
    requests = [[0, *range(1000 * who + 1, 1000 * who + 4 * turn), 1, *range(1000 * who + 500, 1000 * who + 500 + turn)]
                for turn in range(1, 21) for who in range(1, 9)]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
        for number, ids in enumerate(requests):
            trace.write(json.dumps({"timestamp": number, "kind": "turn", "hash_ids": ids}) + "\n")
        trace.flush()
        result = run("replay", trace.name, "--pool", "256M", "--block-bytes", "64K")
        expect(result, **replayed(requests), wrong_bytes=0, failed_puts=0, failed_gets=0, evicted=0)
        assert result["put_exists"] > 0 < result["prefix_hits"], result
        result = run("replay", trace.name, "--pool", "16M", "--block-bytes", "64K")
        expect(result, touches=sum(map(len, requests)), wrong_bytes=0, failed_puts=0)
        assert result["evicted"] > 0, result


def replay(name, touches, blocks, ratio):
    trace = TRACES / name
    if not trace.exists():
        raise Skip(f"{trace.name} is not there")
    result = run("replay", str(trace), "--pool", "640M", "--block-bytes", "64K")
    expect(result, touches=touches, distinct_blocks=blocks, wrong_bytes=0, failed_puts=0)
    assert result["prefix_hit_ratio"] >= ratio, result


def replay_of_conversation_trace():
    replay("conversation_trace.jsonl", 288500, 182790, 0.22)


def replay_of_synthetic_trace():
    replay("synthetic_trace.jsonl", 121877, 43924, 0.43)


def main():
    passed = failed = skipped = 0
    for case in (station, a_flipped_byte_is_seen, station_on_disk, a_flipped_byte_is_seen_on_disk, bench_hit,
                 bench_put, bench_get, bench_batch, bench_clients, bench_growth, bench_reclaim,
                 bench_disk, bench_remote, replay_of_conversations, replay_of_conversation_trace,
                 replay_of_synthetic_trace):
        if len(sys.argv) > 1 and sys.argv[1] not in case.__name__:
            continue
        try:
            case()
            passed += 1
            print(f"ok {case.__name__}", flush=True)
        except Skip as why:
            skipped += 1
            print(f"skipped {case.__name__}: {why}", flush=True)
        except AssertionError as why:
            failed += 1
            print(f"FAILED {case.__name__}: {why}\n  again: {os.path.relpath(__file__)} {case.__name__}",
                  flush=True)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed > 0)


main()
