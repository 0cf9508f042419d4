"""Docstrings of public things: present, sentences, and in step with the signature."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.architecture.source import Module, modules

MANY = 5
"""Parameters from which on they are described; options of commands and routes carry their own help."""

OWN_HELP = ("ptkstore.cli", "ptkstore.api.routes")

NO_VERBS = (
    "a all an blocks every how ids its like names no nobody none nothing one rows seconds the those what when where "
    "whether which who whose why"
)

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_things(module: Module) -> Iterator[tuple[str, Documented]]:
    """Return the module and its public classes, functions and methods, with their names."""
    if any(part.startswith("_") and part != "__main__" for part in module.name.split(".")):
        return
    yield module.name, module.tree
    for name, node in inside(module.tree):
        yield f"{module.name}.{name}", node


def inside(parent: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Documented]]:
    """Return public definitions in the body of a module or class; not those whose docstring is elsewhere."""
    for node in parent.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or {"overload", "typing.overload"} & decorators(node):
            continue
        if any(name.endswith((".setter", ".deleter")) for name in decorators(node)):
            continue
        if "property" in decorators(node) and ast.unparse(node.body) == "...":
            continue  # a part that a protocol names: its type has the words
        if (
            "cached_property" in decorators(node)
            and not ast.get_docstring(node)
            and ast.unparse(node.returns) in classes()
        ):
            continue  # a part that is made at first use: so has its class
        if isinstance(parent, ast.ClassDef) and documented_elsewhere(parent, node):
            continue
        yield node.name, node
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", inner) for name, inner in inside(node))


def documented_elsewhere(owner: ast.ClassDef, node: Documented) -> bool:
    """Return whether a method has its docstring in a class that its own names, or in what it forwards to."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or ast.get_docstring(node):
        return False
    named = {ast.unparse(base).rpartition(".")[2] for base in owner.bases}
    named |= set(re.findall(r"`(?:\w+\.)*(\w+)`", ast.get_docstring(owner) or ""))
    return any(node.name in documented_methods(name) for name in named) or forwards(node)


def forwards(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a method only calls a function of its own name, in a `with` or not."""
    body = node.body
    while len(body) == 1 and isinstance(body[0], ast.With):
        body = body[0].body
    match body:
        case [ast.Return(ast.Call(function)) | ast.Expr(ast.Call(function))]:
            owner, _, name = ast.unparse(function).rpartition(".")
            return name == node.name and owner != "self"
    return False


@cache
def classes() -> dict[str, ast.ClassDef]:
    """Return the classes of the product by name."""
    nodes = (node for module in modules() for node in ast.walk(module.tree))
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def documented_methods(protocol: str) -> set[str]:
    """Return the methods that have a docstring in the protocol or class of this name; none if there is none."""
    node = classes().get(protocol)
    if node is None:
        return set()
    functions = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return {one.name for one in functions if ast.get_docstring(one)}


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
        if acts(node) and not is_imperative(first) and not (command and within(module, OWN_HELP)):
            found.append(f"{name}: the first line does not begin with an imperative")
        if (known := parameters(node)) is not None:
            unknown = [p for p in documented_parameters(text) if p not in known]
            found += [f"{name}: documents the parameter {p!r}, which it does not have" for p in unknown]
            described = documented_parameters(text) or has_described_fields(node)
            describes = module.name.startswith("ptklib") or (acts(node) and not within(module, OWN_HELP))
            many = len(known - through_ports(module, node))
            if describes and many >= MANY and not described:
                found.append(f"{name}: has {many} parameters and no section Parameters")
    return found


def through_ports(module: Module, node: Documented) -> set[str]:
    """Return the parameters of a function whose type is a port: what it is, the port says."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return set()
    imports = (i for i in ast.walk(module.tree) if isinstance(i, ast.ImportFrom))
    ports = {alias.name for i in imports if str(i.module).startswith("ptkstore.ports") for alias in i.names}
    every = (*node.args.args, *node.args.kwonlyargs)
    return {one.arg for one in every if one.annotation and ast.unparse(one.annotation) in ports}


def within(module: Module, packages: tuple[str, ...]) -> bool:
    return any(f"{module.name}.".startswith(f"{package}.") for package in packages)


def acts(node: Documented) -> bool:
    """Return whether it is a function or method that is called, no property and no fixture of a framework."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return not any(name.endswith("property") for name in decorators(node))


def is_imperative(first: str) -> bool:
    """Return whether a line may begin with an imperative: with no article, no name in backticks, no other verb form."""
    word = first.split()[0].strip(",.;:").lower()
    if word in NO_VERBS.split() or word.startswith("`"):
        return False
    return not re.search(r"[^s]s$|ed$", word) or word in ("embed", "feed", "need", "proceed", "seed", "speed")


def has_described_fields(node: Documented) -> bool:
    """Return whether a class says below its fields what they are."""
    return isinstance(node, ast.ClassDef) and any(
        isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        for field, text in pairwise(node.body)
    )


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
            fields = {ast.unparse(i.target) for i in node.body if isinstance(i, ast.AnnAssign)}
            if any("dataclass" in name for name in decorators(node)) and (not node.bases or "_" in fields):
                return fields  # "_" stands for KW_ONLY: such a class declares all of its parameters itself
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

WITH_PORTS = """
from ptkstore.ports.catalog import Begin

def act(a, b, c, d, *, begin: Begin, other: int):
    '''Do it all.'''
"""

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
        (GOOD + WITH_PORTS, "has 5 parameters"),
        (GOOD + WITH_A_RENAMED_FIELD, "'size'"),
        (GOOD + 'def act(a, b, c, d, *, e):\n    """Do it all."""', "has 5 parameters"),
        (GOOD + 'def act():\n    """The act of it."""', "imperative"),
        (GOOD + 'def act():\n    """`None` is done."""', "imperative"),
        (GOOD + 'def act():\n    """Does it."""', "imperative"),
    ],
)
def test_the_check_sees_what_it_is_for(text: str, fault: str):
    found = faults(Module(Path("ptklib/bad.py"), text))

    assert len(found) == 1
    assert fault in found[0]


FORWARDING = """
class Local(Thing):
    '''Hold what `StoreService` and `Nobody` ask for.'''

    def windows(self, stream):
        return 1

    def act(self):
        with self._recorded():
            return things.act(self)
"""


def test_a_method_that_is_documented_elsewhere_needs_no_docstring():
    assert faults(Module(Path("ptklib/good.py"), GOOD + FORWARDING)) == []


@pytest.mark.parametrize(
    ("text", "other", "fault"),
    [("StoreService", "Stores", "windows: no docstring"), ("things.act", "self.act", "act: no docstring")],
)
def test_other_methods_need_one(text: str, other: str, fault: str):
    (found,) = faults(Module(Path("ptklib/bad.py"), GOOD + FORWARDING.replace(text, other)))

    assert fault in found


def test_the_check_lets_good_code_pass():
    assert faults(Module(Path("ptklib/good.py"), GOOD + WELL_DOCUMENTED)) == []
    assert faults(Module(Path("ptkstore/good.py"), GOOD + WITH_PORTS.replace("d, *", "*"))) == []
