"""Programs of cases, one a function case_NAME(): all run, or those that are named."""

import os
import subprocess
import sys


class Wrong(AssertionError):
    """What a case found."""


def require(condition, text):
    if not condition:
        raise Wrong(text)


def main(namespace, run=lambda case: case()):
    """The status to exit with; the last line is what tests/run.py reads."""
    cases = {n.removeprefix("case_"): f for n, f in namespace.items() if n.startswith("case_")}
    chosen = sys.argv[1:] or list(cases)
    unknown = [n for n in chosen if n not in cases]
    if unknown:
        sys.exit(f"no case {', '.join(unknown)}; there are {', '.join(cases)}")
    failed = 0
    for name in chosen:
        try:
            run(cases[name])
            print(f"ok     {name}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"FAILED {name}: {error}\n  again: {sys.executable} {os.path.relpath(sys.argv[0])} {name}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0
