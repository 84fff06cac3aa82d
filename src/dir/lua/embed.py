#!/usr/bin/python3
"""Writes the scripts of this folder as C constants: embed.py OUT.c common.lua NAME.lua...

The text of NAME.lua is redis_lua_NAME, as dir/redis_script.h declares it. A script that works
on `e` goes with common.lua: both have a line "-- and else:", or the script lacks it, and what
stands before these lines comes before what stands behind. Of the functions of common.lua only
those come that are named. Comments that have a line of their own are left out.
"""

import pathlib
import re
import sys

ELSE = "-- and else:\n"
FUNCTION = re.compile(r"^local function (\w+)\(.*?^end\n", re.M | re.S)


def without_comments(text):
    lines = text.splitlines()
    return "".join(f"{line}\n" for line in lines if line.strip() and not line.lstrip().startswith("--"))


def names(text):
    return set(re.findall(r"\w+", text))


def parts(path):
    """What stands before "and else", and behind it."""
    head, mark, rest = path.read_text().partition(ELSE)
    return (without_comments(head), without_comments(rest)) if mark else ("", without_comments(head))


def with_common(common, source):
    """The script with what it needs of common.lua."""
    (common_head, common), (head, script) = parts(common), parts(source)
    if "e" not in names(re.sub(r"'[^']*'", "", head + script)):
        return script
    functions = {match[1]: match[0] for match in FUNCTION.finditer(common)}
    wanted, new = set(), names(FUNCTION.sub("", common) + script)
    while new & set(functions) - wanted:
        wanted |= new & set(functions)
        new = set().union(*(names(functions[name]) for name in wanted))
    common = FUNCTION.sub(lambda match: match[0] if match[1] in wanted else "", common)
    return common_head + head + common + script


def main():
    out, common, *sources = map(pathlib.Path, sys.argv[1:])
    text = ['#include "dir/redis_script.h"\n']
    for source in sources:
        script = with_common(common, source).replace("\t", "")
        numbers = ", ".join(map(str, script.encode() + b"\0"))
        text.append(f"const char redis_lua_{source.stem}[] = {{{numbers}}};\n")
    out.write_text("\n".join(text))


if __name__ == "__main__":
    main()
