"""Docstrings of public things: present, sentences, and in step with the signature."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import Module, modules

MANY = 5
"""Parameters from which on the library describes them."""

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_things(module: Module) -> Iterator[tuple[str, Documented]]:
    """Return the module and its public classes, functions and methods, with their names."""
    if any(part.startswith("_") and part != "__main__" for part in module.name.split(".")):
        return
    yield module.name, module.tree
    for name, node in inside(module.tree):
        yield f"{module.name}.{name}", node


def inside(parent: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Documented]]:
    """Return public definitions in the body of a module or class, without overloads and magic methods."""
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or {"overload", "typing.overload"} & decorators(node):
            continue
        if any(name.endswith((".setter", ".deleter")) for name in decorators(node)):
            continue
        if "property" in decorators(node) and ast.unparse(node.body) == "...":
            continue  # a part that a protocol names: its type has the words
        yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", inner) for name, inner in inside(node))


def decorators(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {ast.unparse(decorator) for decorator in node.decorator_list}


def faults(module: Module) -> list[str]:
    """Return what is wrong with the docstrings of a module."""
    found = []
    for name, node in public_things(module):
        text = ast.get_docstring(node)
        if not text:
            found.append(f"{name}: no docstring")
            continue
        first = text.partition("\n")[0]
        if not first.endswith("."):
            found.append(f"{name}: the first line does not end with a period")
        command = not isinstance(node, ast.Module) and decorators(node)  # its docstring is its help text
        if not command and words(first) <= words(name.rpartition(".")[2]):
            found.append(f"{name}: the first line only repeats the name")
        if (known := parameters(node)) is not None:
            unknown = [p for p in documented_parameters(text) if p not in known]
            found += [f"{name}: documents the parameter {p!r}, which it does not have" for p in unknown]
            if module.name.startswith("ptklib") and len(known) >= MANY and not documented_parameters(text):
                found.append(f"{name}: has {len(known)} parameters and no section Parameters")
    return found


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower())) - {"a", "the"}


def parameters(node: Documented) -> set[str] | None:
    """Return the parameters of a function or constructor, or the fields of a dataclass; None if inherited."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            a = node.args
            every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
            return {argument.arg for argument in every} - {"self", "cls"}
        case ast.ClassDef():
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                    return parameters(inner)
            if any("dataclass" in name for name in decorators(node)) and not node.bases:
                fields = (i.target for i in node.body if isinstance(i, ast.AnnAssign))
                return {field.id for field in fields if isinstance(field, ast.Name)}
    return None


def documented_parameters(text: str) -> list[str]:
    """Return the names in the section "Parameters" of a numpy docstring."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.DOTALL | re.MULTILINE)
    if section is None:
        return []
    heads = re.findall(r"^(\S[^:\n]*?)\s*(?::.*)?$", section[1], re.MULTILINE)
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def test_every_public_thing_has_a_docstring_in_step_with_its_signature():
    found = [fault for module in modules() for fault in faults(module)]

    assert not found, "\n" + "\n".join(found)


GOOD = '"""Hold an example."""\n'

WITH_A_PARAMETER_TOO_MANY = """
def act(x):
    '''Do it.

    Parameters
    ----------
    x, z : int
        Two numbers.
    '''
"""

WITH_A_RENAMED_FIELD = """
@dataclass(frozen=True)
class Thing:
    '''Be one.

    Parameters
    ----------
    size : int
        How long it is.
    '''

    length: int
"""

WELL_DOCUMENTED = """
@dataclass
class Thing:
    '''Be one.

    Parameters
    ----------
    size, width : int
        How large it is.

    Notes
    -----
    other : not a parameter
    '''

    size: int
    width: int

def _hidden(): ...
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x = 1", "no docstring"),
        ('"""Hold an example"""', "period"),
        (GOOD + "class Thing:\n    x = 1", "no docstring"),
        (GOOD + "def act(): ...", "no docstring"),
        (GOOD + 'class Thing:\n    """Be one."""\n    def act(self): ...', "no docstring"),
        (GOOD + 'class BlockLedger:\n    """The block ledger."""', "repeats the name"),
        (GOOD + WITH_A_PARAMETER_TOO_MANY, "'z'"),
        (GOOD + WITH_A_RENAMED_FIELD, "'size'"),
        (GOOD + 'def act(a, b, c, d, *, e):\n    """Do it all."""', "has 5 parameters"),
    ],
)
def test_the_check_sees_what_it_is_for(text: str, fault: str):
    found = faults(Module(Path("ptklib/bad.py"), text))

    assert len(found) == 1
    assert fault in found[0]


def test_the_check_lets_good_code_pass():
    assert faults(Module(Path("ptklib/good.py"), GOOD + WELL_DOCUMENTED)) == []
