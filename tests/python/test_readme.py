"""The Python of README.md runs as it is written there, and prints what it says."""

import os
import re
import subprocess
import sys

from conftest import ROOT

SECTION = re.search(r"^## In Python$(.*?)^## ", (ROOT / "README.md").read_text(), re.M | re.S)[1]
EXAMPLE = re.search(r"^```python$(.*?)^```$", SECTION, re.M | re.S)[1]
ONE_LINERS = re.findall(r"^    (python3 -c .*)$", SECTION, re.M)


def output(node, *argv, path=""):
    env = {**os.environ, "CENOTE_SOCKET": node.socket, "PATH": path + os.environ["PATH"]}
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def test_example(store, node):
    said = re.findall(r"print\(.*\) *# (.*)$", EXAMPLE, re.M)
    assert len(said) == 2
    assert output(node, sys.executable, "-c", EXAMPLE).splitlines() == said
    assert store.list() == []


def test_one_liners(store, node, tmp_path):
    assert len(ONE_LINERS) == 2
    # The python3 of these tests, whichever comes first in $PATH.
    (tmp_path / "python3").symlink_to(sys.executable)
    printed = [output(node, "bash", "-c", line, path=f"{tmp_path}:") for line in ONE_LINERS]
    assert printed == ["", "[[0. 1. 2.]\n [3. 4. 5.]]\n"]
    assert [entry.key for entry in store.list()] == ["weights"]
