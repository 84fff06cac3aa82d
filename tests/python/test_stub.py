"""The typed stub says what is there: the same names, and the same parameters."""

import ast
import inspect

import cenote
import pytest
from conftest import PACKAGES

STUB = ast.parse((PACKAGES / "cenote/__init__.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def public(names):
    return {name for name in names if not name.startswith("_")}


def parameters(function):
    """{name: default as text, or None} of a function in the stub; self left out."""
    given = function.args.posonlyargs + function.args.args
    defaults = [None] * (len(given) - len(function.args.defaults)) + function.args.defaults
    pairs = list(zip(given, defaults)) + list(zip(function.args.kwonlyargs, function.args.kw_defaults))
    return {arg.arg: default and ast.literal_eval(default) for arg, default in pairs if arg.arg != "self"}


def signature(function):
    empty = inspect.Parameter.empty
    return {name: None if p.default is empty else p.default
            for name, p in inspect.signature(function).parameters.items() if name != "self"}


def test_names():
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    there = public(cenote.__all__)
    assert public(CLASSES) | functions == there


@pytest.mark.parametrize("name", ["Store", "Buffer", "Writer", "Stat", "Entry"])
def test_members(name):
    stub = {node.name for node in CLASSES[name].body if isinstance(node, ast.FunctionDef)}
    inherited = public(dir(tuple)) | {"n_fields", "n_sequence_fields", "n_unnamed_fields"}
    runtime = public(dir(getattr(cenote, name)))
    assert public(stub) == (runtime - inherited if name in ("Stat", "Entry") else runtime)


def test_parameters():
    for node in CLASSES["Store"].body:
        if isinstance(node, ast.FunctionDef) and node.name in public([node.name]) and not node.decorator_list:
            assert parameters(node) == signature(getattr(cenote.Store, node.name)), node.name
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == signature(getattr(cenote, node.name)), node.name


def test_errors():
    for name, node in CLASSES.items():
        kind = getattr(cenote, name, None)
        if isinstance(kind, type) and issubclass(kind, cenote.CenoteError):
            assert [base.__name__ for base in kind.__bases__] == [base.id for base in node.bases]
