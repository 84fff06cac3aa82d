#!/usr/bin/python3
"""Checks of the tree as a whole: what the products export, install and say, and that every
source file is built and formatted. One case per function; `house.py NAME` runs one.

Reads the release build in build/ and the debug build in build-debug/.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cases
import run as runner
from cases import require

ROOT = pathlib.Path(__file__).resolve().parent.parent
RELEASE = ROOT / "build"
DEBUG = ROOT / "build-debug"
HEADER = ROOT / "include/cenote/cenote.h"
LIBRARY = RELEASE / "libcenote.so.0.1.0"


def output(*argv, **options):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, cwd=options.pop("cwd", ROOT), **options)
    require(done.returncode == 0, f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def c_files(*tops):
    return sorted(p for top in tops for p in (ROOT / top).rglob("*.[ch]"))


def declared_functions():
    """Names of the functions that cenote.h declares and does not define."""
    text = output("gcc", "-E", "-P", HEADER)
    while True:
        text, count = re.subn(r"\{[^{}]*\}", ";", text)
        if not count:
            break
    statements = [s for s in text.split(";") if "static" not in s and "typedef" not in s]
    return {m[1] for s in statements for m in [re.search(r"\b(cenote_\w+)\s*\(", s)] if m}


def case_format():
    """Every C file reads as .clang-format has it."""
    done = subprocess.run(["clang-format", "--dry-run", *c_files("src", "include", "tests", "bench")], cwd=ROOT,
                          stderr=subprocess.PIPE, text=True, check=True)
    files = sorted(set(re.findall(rf"^{ROOT}/(.+?):\d+:", done.stderr, re.M)))
    require(not files, f"clang-format -i {' '.join(files)}")


def case_sources_built():
    """Every .c file of src/, tests/ and bench/ belongs to a target of the debug build, or is named by `make fuzz`."""
    targets = json.loads((DEBUG / "meson-info/intro-targets.json").read_text())
    built = {pathlib.Path(os.path.normpath(f)) for t in targets for s in t["target_sources"] for f in s["sources"]}
    built |= {ROOT / name for name in re.findall(r"tests/fuzz/\w+\.c", (ROOT / "Makefile").read_text())}
    files = c_files("src", "tests", "bench")
    forgotten = [str(p.relative_to(ROOT)) for p in files if p.suffix == ".c" and p not in built]
    require(not forgotten, f"no target builds {', '.join(forgotten)}")


def case_version():
    """cenote.h, version.h, meson.build and the library's name here have the same version."""
    header = re.findall(r"#define CENOTE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER.read_text())
    found = {
        "cenote.h": ".".join(header),
        "version.h": re.search(r'VERSION_TEXT "(.+?)"', (ROOT / "src/base/version.h").read_text())[1],
        "meson.build": re.search(r"^\tversion: '(.+?)'", (ROOT / "meson.build").read_text(), re.M)[1],
        "house.py": LIBRARY.name.removeprefix("libcenote.so."),
    }
    require(len(set(found.values())) == 1, f"the versions are not one: {found}")


def case_exports():
    """libcenote.so exports exactly the functions of cenote.h, under its soname."""
    lines = [line.split() for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    exported = {name.split("@")[0] for _, kind, name in lines if kind != "A"}
    declared = declared_functions()
    require(declared, "no function found in cenote.h")
    require(exported == declared, f"only exported: {sorted(exported - declared)}; "
            f"only declared: {sorted(declared - exported)}")
    require("[libcenote.so.0]" in output("readelf", "-d", LIBRARY), "soname is not libcenote.so.0")


def case_no_faults_in_release():
    """No release binary names a fault point; the debug ones do, so the search works."""
    names = re.findall(r'"(\w+)",', (ROOT / "src/fault/points.def").read_text())
    require(len(names) > 10, "points.def was not understood")
    for program in ("cenote", "cenoted", LIBRARY.name):
        words = set(output("strings", "-n", "4", RELEASE / program).split())
        left = [w for w in words if any(n in w for n in names)]
        require(not left, f"{program} names {left}")
    words = set(output("strings", "-n", "4", DEBUG / "cenoted", DEBUG / LIBRARY.name).split())
    missing = [n for n in names if n not in words]
    require(not missing, f"not even in the debug build: {missing}")


def case_no_plants():
    """No product has a planted bug in it, of neither build; the simulator made for them has."""
    def symbols(program):
        return set(output("nm", program).split())
    products = [build / name for build in (RELEASE, DEBUG) for name in ("cenoted", LIBRARY.name)]
    for program in products:
        require("plant_armed" not in symbols(program), f"{program} has planted bugs")
    require("plant_armed" in symbols(DEBUG / "tests/sim/sim_plants"), "sim_plants has none")


def case_header():
    """cenote.h alone is C11 and C++11 without a warning."""
    flags = ["-fsyntax-only", "-Wall", "-Wextra", "-pedantic-errors", "-Werror"]
    with tempfile.TemporaryDirectory() as tmp:
        source = pathlib.Path(tmp) / "alone.c"
        source.write_text("#include <cenote/cenote.h>\n")
        for language in (["gcc", "-std=c11"], ["clang", "-std=c11"], ["clang", "-std=c++11", "-x", "c++"]):
            output(*language, *flags, f"-I{ROOT / 'include'}", source)


def case_install():
    """An installed tree is complete, and a stranger's program builds and runs with it."""
    with tempfile.TemporaryDirectory() as tmp:
        dest = pathlib.Path(tmp)
        env = {**os.environ, "DESTDIR": tmp}
        output("meson", "install", "-C", RELEASE, "--no-rebuild", "--quiet", env=env)
        files = {p.name: p for p in dest.rglob("*") if not p.is_dir()}
        for name in ("cenote", "cenoted", "libcenote.so", "libcenote.so.0", LIBRARY.name,
                     "cenote.h", "cenote.pc", "cenote.1", "cenoted.8", "optimum.py"):
            require(name in files, f"{name} is not installed; there is {sorted(files)}")
        (dest / "x.c").write_text(
            "#include <cenote/cenote.h>\n#include <stdio.h>\n"
            "int main(void) { return puts(cenote_error_name(CENOTE_ERR_NOT_FOUND)) < 0; }\n")
        env = {**os.environ, "PKG_CONFIG_PATH": str(files["cenote.pc"].parent), "PKG_CONFIG_SYSROOT_DIR": tmp}
        flags = output("pkg-config", "--cflags", "--libs", "cenote", env=env).split()
        output("gcc", dest / "x.c", "-o", dest / "x", *flags)
        env = {**os.environ, "LD_LIBRARY_PATH": str(files["libcenote.so"].parent)}
        require("NOT_FOUND" in output(dest / "x", env=env), "the stranger's program said something else")


def case_runner():
    """tests/run.py counts what is there: groups, fixtures that failed, programs that died."""
    ran = "[==========] Running 3 test(s).\n[==========] 3 test(s) run.\n"
    for text, want, complains in (
            (ran + "[  PASSED  ] 3 test(s).\n", (3, 0, 0), False),
            (ran + "[  PASSED  ] 1 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n", (1, 1, 1), False),
            (ran + ran + "[  PASSED  ] 3 test(s).\n", (3, 3, 0), False),
            ("noise\n7 passed, 2 failed, 1 skipped\n", (7, 2, 1), False),
            ("7 passed, 2 failed\nSegmentation fault\n", (0, 0, 0), True),
            ("", (0, 0, 0), True)):
        tally, complaint = runner.parse(text)
        got = (tally.passed, tally.failed, tally.skipped)
        require(got == want and bool(complaint) == complains, f"{text!r}: {got}, {complaint}")
    for script, want in (("kill -9 $$", "SIGKILL"), ("echo 3 passed, 0 failed; exit 4", "exit status 4"),
                         ("echo 0 passed, 0 failed", "ran no test"), ("true", "no closing line")):
        tally, complaint = ended("/bin/sh", "-c", script)
        require(tally.failed == 1 and want in complaint, f"{script}: {tally}, {complaint}")


def ended(*argv):
    """What the runner makes of a program that it started."""
    suite = runner.Suite("house", 1)
    with tempfile.TemporaryDirectory(dir=RELEASE) as tmp:
        program = runner.Program(suite, "probe", argv, os.path.relpath(tmp, ROOT), {})
        runner.start(program)
        program.process.wait()
        return runner.judge(program)


if __name__ == "__main__":
    sys.exit(cases.main(globals()))
