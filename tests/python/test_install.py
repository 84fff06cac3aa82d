"""`pip install .` from the tree, without a network: one wheel for CPython 3.11 and later."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

pytest.importorskip("mesonpy")
pytest.importorskip("pip")

NEEDED = ("include", "src", "LICENSE", "README.md", "meson.build", "meson_options.txt", "pyproject.toml")


def test_wheel(tmp_path, node):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in NEEDED:  # a copy, since the build leaves a file at the top
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tree / name)
    # Not what a sanitized run of these tests needs itself.
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "PYTHONPATH", "ASAN_OPTIONS")}
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-index",
                           "--no-deps", "--wheel-dir", tmp_path, "."], cwd=tree, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    wheel, = tmp_path.glob("*.whl")
    assert "-cp311-abi3-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    there = {p.name for p in (tmp_path / "site/cenote").iterdir()}
    assert there == {"__init__.py", "__init__.pyi", "_cenote.abi3.so", "bench.py", "py.typed", "tensor.py"}
    assert len(list((tmp_path / "site").iterdir())) == 2  # the package and what pip knows of it
    program = ("import cenote; s = cenote.connect(); s.put('w', b'1'); print(bytes(s.get('w'))); "
               "s.remove('w')")
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True,
                          env={**env, "PYTHONPATH": str(tmp_path / "site"), "CENOTE_SOCKET": node.socket})
    assert done.stdout == "b'1'\n"
