"""python3 -m cenote.bench runs, and says in one invocation what it promises to say. How fast
anything is, is not looked at."""

import json
import os
import subprocess
import sys

import pytest
from conftest import BUILD

ROWS = {"hit", "c_hit", "put_4k", "put_1m", "copy_1m", "get_into_1m", "put_64m", "copy_64m",
        "get_into_64m", "put_64m_by_c", "put_64m_by_python", "put_batch_64x1k", "put_batch_64x1m",
        "row_of_1024", "row_of_4096"}


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitized bench takes minutes")
def test_bench():
    env = {k: v for k, v in os.environ.items() if k != "CENOTE_SOCKET"}
    done = subprocess.run(
        [sys.executable, "-m", "cenote.bench", "--runs=1", "--json", f"--cenoted={BUILD / 'cenoted'}"],
        env=env, stdout=subprocess.PIPE, check=True)
    result = json.loads(done.stdout)
    rows = result["rows"]
    assert rows.keys() >= ROWS
    assert all(row["count"] > 0 and 0 < row["p50_us"] <= row["p99_us"] for row in rows.values())
    assert result["rows_4096_to_1024"] > 0 and result["put_64m_percent_over_c"] > -100
    assert abs(result["hit_ns_over_c"] - (result["hit_ns"] - result["c_hit_ns"])) < 1
