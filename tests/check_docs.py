#!/usr/bin/python3
"""The manual, the man pages and the programs say the same. One case per function;
`check_docs.py NAME` runs one.

Runs the programs of the build directory that $CENOTE_BUILD names, build/ if not set.
"""

import os
import pathlib
import re
import subprocess
import sys

import cases
from cases import require

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("CENOTE_BUILD", "build")
MANUAL = (ROOT / "docs/manual.md").read_text()
README = (ROOT / "README.md").read_text()
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def run(program, *args):
    """(exit status, standard output, standard error); no node is named to it."""
    env = {k: v for k, v in os.environ.items() if k != "CENOTE_SOCKET"}
    done = subprocess.run([BUILD / program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, text=True, check=False, env=env, timeout=60)
    return done.returncode, done.stdout, done.stderr


def output(program, *args):
    status, out, err = run(program, *args)
    require(status == 0, f"{program} {' '.join(args)}: exit {status}: {err}")
    return out


def table(heading):
    """The rows of the first table under a heading of the manual, as lists of cells."""
    section = MANUAL.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = re.search(r"(?:^\|.*\n)+", section, re.M)[0].splitlines()[2:]
    return [[c.strip().strip("`") for c in line.strip("|").split("|")] for line in lines]


def commands():
    names = re.findall(r"^  ([a-z]+)  +\S", output("cenote", "--help"), re.M)
    names.remove("help")
    require(len(names) >= 10, f"cenote --help lists only {names}")
    return names


def man(program):
    return output(program, "--man").replace("\\-", "-")


def case_defaults():
    """Every default in the manual is the one that the daemon prints; one that is blank there
    depends on other settings, and --help names none either."""
    printed = dict(re.findall(r"^([a-z-]+) = ?(.*)$", output("cenoted", "--print-config"), re.M))
    written = {row[0]: row[1] for row in table("Settings of the daemon")}
    require(len(printed) > 5, f"--print-config printed {printed}")
    require(printed.keys() == written.keys(), f"only in one: {sorted(printed.keys() ^ written.keys())}")
    wrong = [f"{name}: manual {written[name]!r}, daemon {printed[name]!r}" for name in sorted(printed)
             if written[name] and written[name] != printed[name]]
    texts = re.split(r"^ +(?:-\w, )?--(?=[a-z])", output("cenoted", "--help"), flags=re.M)
    texts = {re.match(r"[a-z-]+", text)[0]: text for text in texts[1:]}
    wrong += [f"{name}: blank in the manual, but --help has a default" for name in sorted(written)
              if not written[name] and "(default" in texts[name]]
    require(not wrong, "; ".join(wrong))


def case_errors():
    """The manual's errors are those of err.def and of cenote.h, with their numbers."""
    listed = {name: int(number) for name, number in
              re.findall(r"^ERR\((\w+), (-\d+),", (ROOT / "src/base/err.def").read_text(), re.M)}
    header = {name: int(number) for name, number in
              re.findall(r"CENOTE_ERR_(\w+) = (-\d+)", (ROOT / "include/cenote/cenote.h").read_text())}
    written = {row[0]: int(row[1]) for row in table("When something fails")}
    require(listed, "err.def was not understood")
    for name, other in (("cenote.h", header), ("manual", written)):
        require(other == listed, f"{name}: {sorted(set(other.items()) ^ set(listed.items()))}")


def case_options_in_man():
    """Every option that a --help shows, of each command too, is in the man page."""
    for program in ("cenoted", "cenote"):
        shown = set(OPTION.findall(output(program, "--help")))
        require(shown, f"{program} --help shows no option")
        missing = shown - set(OPTION.findall(man(program)))
        require(not missing, f"{program}: not in the man page: {sorted(missing)}")
    page = man("cenote")
    for name in commands():
        section = page.split(f'.SS "{name}: ', 1)
        require(len(section) == 2, f"the man page has no section of {name}")
        section = re.split(r"^\.S[SH] ", section[1], maxsplit=1, flags=re.M)[0]
        shown = set(OPTION.findall(output("cenote", name, "--help")))
        require(shown, f"cenote {name} --help shows no option")
        missing = shown - set(OPTION.findall(section))
        require(not missing, f"{name}: not in its part of the man page: {sorted(missing)}")


def case_options_of_manual():
    """Every option that the manual or a man page names exists."""
    known = set(OPTION.findall(output("cenoted", "--help") + output("cenote", "--help")))
    for name in commands():
        known |= set(OPTION.findall(output("cenote", name, "--help")))
    for where, text in (("manual", re.sub(r"pkg-config [^)]*\)", "", MANUAL)),
                        ("cenote.1", man("cenote")), ("cenoted.8", man("cenoted"))):
        unknown = set(OPTION.findall(text)) - known
        require(not unknown, f"{where}: {sorted(unknown)}")


def case_commands_of_manual():
    """Every `cenote COMMAND` in the manual exists."""
    named = set(re.findall(r"(?:^    |`)cenote ([a-z]+)\b", MANUAL, re.M))
    require(named, "the manual names no command")
    unknown = named - set(commands())
    require(not unknown, f"the manual names {sorted(unknown)}")


def constant(name, path):
    """The number of a #define of the sources, as texts have it."""
    found = re.search(rf"#define {name}\s+\\?\s*(\d+)u?\b", (ROOT / path).read_text())
    require(found, f"{path} has no number {name}")
    return f"{int(found[1]):,}"


def case_limits():
    """Manual, README and man pages state the limits, as the sources have them."""
    layout, header = "src/share/layout.h", "include/cenote/cenote.h"
    key, slot = constant("KEY_LIMIT", layout), constant("SHARE_BYTES_PER_SLOT", layout)
    clients, granule = constant("CLIENT_LIMIT", layout), constant("POOL_GRANULE", "src/core/master.h")
    require(constant("CENOTE_KEY_LIMIT", header) == key, "cenote.h has another limit of keys")
    require(constant("CENOTE_REPLICAS_MAX", header) == constant("KEEPERS_LIMIT", layout), "cenote.h has other replicas")
    beside = re.search(r"> (\d+)ull \* COUNT", (ROOT / "tests/e2e/test_pool.c").read_text())
    require(beside, "test_pool.c does not measure the memory beside the pool")
    rows = {row[0]: row[1] for row in table("Limits")}
    said = {"manual": MANUAL, "README": README, "cenote.1": man("cenote"), "cenoted.8": man("cenoted"), **rows}
    said = {where: " ".join(text.split()) for where, text in said.items()}
    for words, places in (
            (f"1 to {key} bytes", ("key", "README", "cenote.1", "cenoted.8")),
            ("any bytes but NUL", ("key", "README", "cenote.1")),
            (f"^{clients} a node", ("clients",)), (f"{clients} clients", ("README", "cenote.1")),
            (f"{clients} attached processes", ("cenoted.8",)),
            (f"^{constant('PEER_LIMIT', 'src/io/env.h')} others", ("nodes",)),
            (f"up to {constant('KEEPERS_LIMIT', layout)}$", ("nodes",)),
            (f"one( object)? for each {slot} bytes", ("objects", "README", "cenote.1", "cenoted.8")),
            (f"Objects lie on {granule} bytes", ("manual",)),
            (f"at most {beside[1]} bytes", ("memory beside the pool", "cenote.1")),
            (f"beyond {constant('KEY_INLINE', layout)} bytes", ("memory beside the pool", "cenote.1")),
            ("2 bytes for each object", ("memory beside the pool", "cenote.1")),
            ("one growth step", ("memory beside the pool", "cenote.1"))):
        for where in places:
            require(re.search(words, said[where]), f"{where} does not say: {words}")


def case_roff():
    """The man pages are clean roff."""
    for program in ("cenote", "cenoted"):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=output(program, "--man"),
                              stderr=subprocess.PIPE, text=True, check=True)
        require(not done.stderr, f"{program} --man: {done.stderr}")


def case_help():
    """--help fits 80 columns, and `cenote help X` is `cenote X --help`."""
    texts = {program: output(program, "--help") for program in ("cenote", "cenoted")}
    require(output("cenote", "help") == texts["cenote"], "cenote help differs from --help")
    for name in commands():
        texts[name] = output("cenote", name, "--help")
        require(texts[name] == output("cenote", "help", name), f"help {name} differs from {name} --help")
    for name, text in texts.items():
        wide = [line for line in text.splitlines() if len(line) > 80]
        require(not wide, f"{name} --help: {wide}")


def case_exit_status():
    """0, 1 and 2 as the man page has them, with a line that names what was wrong."""
    for args, want, words in (
            ((), 2, "Usage: cenote COMMAND"),
            (("frob",), 2, "frob: no such command"),
            (("--frob",), 2, "--frob: no such option"),
            (("put",), 2, "put: an operand is missing"),
            (("get", "a", "b"), 2, "get: too many operands"),
            (("put", "--ttl=5", "k"), 2, "--ttl=5: a duration"),
            (("rm",), 2, "rm: a KEY, --prefix=PREFIX or --regex=REGEX is needed"),
            (("rm", "--prefix=a", "--regex=b"), 2, "rm: --prefix and --regex do not go together"),
            (("top", "--json"), 2, "--json goes with --once"),
            (("bench", "frob"), 2, "frob: no such profile"),
            (("bench", "--ranks=0", "station"), 2, "--ranks=0: a whole number from 1 to"),
            (("bench", "station", "--pool=12Q"), 2, "--pool=12Q: a size"),
            (("fault", "X", "sleep", "soon"), 2, "VALUE soon: a whole number is needed"),
            (("replay", "/nonexistent/trace"), 1, "/nonexistent/trace: No such file or directory"),
            (("ls", "--socket=/nonexistent/socket", "--timeout=100ms"), 1, "/nonexistent/socket"),
            (("--version",), 0, "")):
        status, out, err = run("cenote", *args)
        require(status == want, f"cenote {' '.join(args)}: exit {status}, not {want}: {err}")
        require(words in err, f"cenote {' '.join(args)}: said {err!r}, not {words!r}")
        require(want == 0 or not out, f"cenote {' '.join(args)}: failed, but printed {out!r}")


if __name__ == "__main__":
    sys.exit(cases.main(globals()))
