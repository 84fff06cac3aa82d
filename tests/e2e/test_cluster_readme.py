#!/usr/bin/python3
"""README.md's cluster runs as it is written there, in a directory of its own whose `build` is the
build directory, and does what the comments beside its commands say.

It runs in namespaces of its own (root's): its ports are nobody else's, its /run is empty, and
what it leaves in the background ends with it.
"""

import os
import re
import subprocess
import textwrap

from cluster import BUILD, ROOT, Process, Skip, expect, main

README = (ROOT / "README.md").read_text()
SCRIPT_S = 120
INSIDE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# Then every node is asked for what was removed.
AFTERWARDS = """
echo the script has ended
for socket in /run/cenote/*/cenote.sock; do
    build/cenote get greeting --socket $socket && exit 9
    echo $socket has no greeting
done 2>&1
"""


def section():
    """The code of the section: what is indented."""
    found = re.search(r"^## A cluster$(.*?)(?=^## |\Z)", README, re.M | re.S)
    expect(found, 'README.md has no section "A cluster"')
    code = textwrap.dedent("".join(re.findall(r"^(?:    .*|)\n", found[1], re.M))).strip()
    for word in ("redis-server", "cenoted", "--peer-key", "cenote put", "cenote get", "cenote rm"):
        expect(word in code, f"{word} is not in the section any more:\n{code}")
    return code


def can_be_alone():
    probe = [*INSIDE, "bash", "-c", "mount -t tmpfs none /run && ip link set lo up"]
    return os.geteuid() == 0 and subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0


def the_readme_runs_as_written(t):
    if not can_be_alone():
        raise Skip("it takes root, and namespaces: the nodes lie in /run/cenote, on fixed ports")
    code = section()
    work = t.path("work")
    (work / "build").symlink_to(BUILD)
    script = t.directory / "script"
    script.write_text(f"mount -t tmpfs none /run\nip link set lo up\nset -e -o pipefail\n{code}\n{AFTERWARDS}")
    log, said = t.directory / "log", t.directory / "said"
    t.logs += [("the script", log), ("what it printed", said)]
    env = {k: v for k, v in os.environ.items() if k != "CENOTE_SOCKET"}
    with open(said, "wb") as out, open(log, "wb") as errors:
        run = Process(t, "the script", [*INSIDE, "bash", script], cwd=work, env=env, stdout=out, stderr=errors)
    status = run.wait(SCRIPT_S)
    printed = said.read_text(errors="replace")
    expect(status == 0, f"it ended with status {status}")
    mine, _, after = printed.partition("the script has ended\n")
    for word in re.findall(r"cenote get .*?# (.*)$", code, re.M):
        expect(word in mine.splitlines(), f"no line {word!r} in what it printed")
    expect(after.count("has no greeting") == 3, f"of three nodes: {after}")
    expect(after.count("NOT_FOUND") == 3, f"it is not absent, but: {after}")


main(the_readme_runs_as_written)
