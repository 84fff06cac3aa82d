#!/usr/bin/python3
"""Holds every #include of src/ against the layer table of ARCHITECTURE.md.

The table says which folders a folder may include and whether its system headers must be
pure, that is, free of system calls, clocks, threads and locks. A breach is printed as
file:line, one result per folder. With --self-test the same check runs on a small tree in
which each kind of breach is planted, and every plant must be found.
"""

import argparse
import pathlib
import re
import sys
import tempfile

PURE_HEADERS = {
    "assert.h", "ctype.h", "endian.h", "errno.h", "float.h", "getopt.h", "inttypes.h", "limits.h", "math.h",
    "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h",
    "stdlib.h", "string.h", "strings.h",
    "emmintrin.h", "immintrin.h", "xxhash.h", "xxh_x86dispatch.h",
}
# stdio.h and stdlib.h are pure for formatting and abort(); these names in them are not.
IMPURE_CALLS = re.compile(
    r"(?<![\w.>])(fopen|fdopen|freopen|fread|fwrite|fclose|popen|remove|rename|tmpfile|"
    r"getenv|setenv|system|rand|srand|random|atexit|exit|_exit)\s*\(")
ALLOCATION_CALLS = re.compile(
    r"(?<![\w.>])(malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|"
    r"strdup|strndup|asprintf|vasprintf|alloca)\s*\(")
NO_ALLOCATION = {"share", "core"}

INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^">]+)[">]')
COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


class Layer:
    """One row of the table."""

    def __init__(self, may_include, system):
        self.may_include = may_include
        words = [w.strip() for w in system.split(",")]
        if words[0] not in ("pure", "any"):
            raise ValueError(f"system headers must begin with 'pure' or 'any', not {system!r}")
        self.pure = words[0] == "pure"
        self.exempt = set(words[1:])


def read_table(text):
    """The rows under the heading '| folder | may include | system headers |'."""
    layers = {}
    inside = False
    for line in text.splitlines():
        cells = [c.strip().strip("`") for c in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[:3] == ["folder", "may include", "system headers"]:
            inside = True
        elif inside and not set(cells[0]) <= set("-: "):
            names = {c.strip() for c in cells[1].split(",") if c.strip()}
            layers[cells[0]] = Layer(names, cells[2])
    return layers


def blank(match):
    """Spaces in place of a comment or string, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def include_breach(folder, layer, name, kind, target, folders):
    """Why one include is forbidden, or None."""
    if kind == "<":
        if target.split("/")[0] == "cenote" and "/" in target:
            kind = '"'
        elif layer.pure and name not in layer.exempt and target not in PURE_HEADERS:
            return f"{folder}/ takes pure system headers only, <{target}> is not one"
    if kind == "<":
        return None
    there, slash, file = target.partition("/")
    if not slash:
        return f'"{target}" does not name its folder'
    if there == folder:
        return None
    if there not in layer.may_include:
        known = "" if there in folders else " (no such layer)"
        return f"{folder}/ may not include {target}{known}"
    if re.search(r"_priv\.\w+$", file):
        return f"{target} is private to {there}/"
    return None


def file_breaches(path, folder, layer, folders):
    text = path.read_text(errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            why = include_breach(folder, layer, path.name, match[1], match[2], folders)
            if why:
                yield number, why
    code = COMMENT_OR_STRING.sub(blank, text)
    for number, line in enumerate(code.splitlines(), 1):
        if layer.pure and path.name not in layer.exempt and IMPURE_CALLS.search(line):
            yield number, f"{folder}/ calls {IMPURE_CALLS.search(line)[1]}()"
        if folder in NO_ALLOCATION and ALLOCATION_CALLS.search(line):
            yield number, f"{folder}/ calls {ALLOCATION_CALLS.search(line)[1]}()"


def check_tree(root):
    """{folder: (file count, [breach lines])} for every folder of root/src."""
    layers = read_table((root / "ARCHITECTURE.md").read_text())
    folders = set(layers) | {"cenote"}
    if not layers:
        return {"ARCHITECTURE.md": (0, ["ARCHITECTURE.md: no layer table found"])}
    result = {}
    for path in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        folder = path.name
        files = sorted(f for f in path.rglob("*") if f.suffix in (".c", ".h", ".def"))
        lines = []
        if folder not in layers:
            lines.append(f"src/{folder}: not in the table of ARCHITECTURE.md")
        for file in files if folder in layers else []:
            for number, why in file_breaches(file, folder, layers[folder], folders):
                lines.append(f"{file.relative_to(root)}:{number}: {why}")
        result[folder] = (len(files), lines)
    return result


PLANT_TABLE = """
| folder | may include | system headers | may not |
| --- | --- | --- | --- |
| base | | pure | all |
| core | base | pure | all |
| node | base, core | pure, main.c | - |
| tools | cenote | any | - |
"""
# file, text, what the check must say about it (None = nothing)
PLANTS = [
    ("base/ok.h", '#include <stdint.h>\n/* #include <time.h> and malloc(1) in words */\n', None),
    ("core/ok.c", '#include "core/ok_priv.h"\n#include "base/ok.h"\nint freed(void); // free(x)\n', None),
    ("node/main.c", "#include <unistd.h>\n", None),
    ("tools/ok.c", '#include <cenote/cenote.h>\n#include <unistd.h>\n', None),
    ("base/up.h", '#include "core/ok.h"\n', "base/ may not include core/ok.h"),
    ("core/clock.c", "#include <time.h>\n", "<time.h>"),
    ("core/sys.c", "#  include <sys/mman.h>\n", "<sys/mman.h>"),
    ("core/heap.c", "void *f(void)\n{\n\treturn malloc(4);\n}\n", "calls malloc()"),
    ("core/env.c", "char *f(void)\n{\n\treturn getenv(\"A\");\n}\n", "calls getenv()"),
    ("core/bare.c", '#include "ok.h"\n', "does not name its folder"),
    ("core/no.c", '#include "nowhere/ok.h"\n', "no such layer"),
    ("node/priv.c", '#include "core/ok_priv.h"\n', "private to core/"),
    ("node/call.c", "#include <unistd.h>\n", "<unistd.h>"),
    ("node/public.c", "#include <cenote/cenote.h>\n", "may not include cenote/cenote.h"),
    ("tools/in.c", '#include "core/ok.h"\n', "tools/ may not include core/ok.h"),
    ("attic/x.c", "int x;\n", "not in the table"),
]


def self_test():
    """Each plant found, nothing else found. Returns (passed, failed)."""
    with tempfile.TemporaryDirectory() as tmp:
        root = pathlib.Path(tmp)
        (root / "ARCHITECTURE.md").write_text(PLANT_TABLE)
        for name, text, _ in PLANTS:
            path = root / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        said = [line for _, lines in check_tree(root).values() for line in lines]
    failed = 0
    for name, _, want in PLANTS:
        where = "src/attic" if name.startswith("attic") else f"src/{name}:"
        about = [line for line in said if line.startswith(where)]
        good = not about if want is None else len(about) == 1 and want in about[0]
        if not good:
            print(f"self-test: {name}: wanted {want!r}, got {about}")
            failed += 1
    return len(PLANTS) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--self-test", action="store_true", help="prove that planted breaches are found")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    if args.self_test:
        passed, failed = self_test()
    else:
        passed = failed = 0
        for folder, (count, lines) in check_tree(args.root).items():
            print("\n".join(lines) or f"{folder}: {count} files, no breach")
            failed += bool(lines)
            passed += not lines
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
