"""A team's code as it is imported: what has to travel is the modules it imports of its own folder."""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from ptkstore.errors import InvalidRequest
from ptkstore.sdk.repository.declarations import estimator_spec
from ptkstore.sdk.repository.team_code import (
    FunctionFacts,
    Source,
    TeamFunctions,
    described,
    functions_of,
    is_team_code,
)

_EVERYWHERE = frozenset({"ptklib", "ptkstore"})
"""Packages that the sandbox has: a checkout of ours beside a team's code does not travel."""


def described_as_imported(
    train_dp: Any, eval: Callable[..., float] | None, facts: FunctionFacts
) -> tuple[Mapping[str, Any], bytes | None]:
    """Return what is to be registered as data, with its bundle where it is team code.

    Raises
    ------
    InvalidRequest
        Team code cannot travel, or too little or too much is said of it.
    """
    if callable(train_dp) and not hasattr(train_dp, "to_spec"):
        train_dp = functions_of(train_dp, eval, facts)
    elif eval is not None or facts:
        names = ", ".join([*(["eval"] if eval is not None else []), *facts])
        raise InvalidRequest(f"{names} are said of a function; a {type(train_dp).__name__} says them itself")
    if not is_team_code(train_dp):
        return estimator_spec(train_dp), None
    functions = isinstance(train_dp, TeamFunctions)
    things = [train_dp.train_dp, train_dp.eval, train_dp.row_losses] if functions else [type(train_dp)]
    return described(train_dp, source_of_imported([one for one in things if one is not None]))


def source_of_imported(things: Sequence[Any]) -> Source:
    """Return the code that functions, or the classes of estimators, need where they are run.

    That is the modules they are defined in, the packages around these, and what all of them import of the same folder.
    Imports are read, nothing is run; those below `if TYPE_CHECKING` are left out. Installed distributions and files
    that are no modules stay.

    Raises
    ------
    InvalidRequest
        One is defined where it cannot be imported, is installed, or is in another folder than the first.
    """
    modules = [_module_of(thing) for thing in things]
    roots = {name: _root(name) for name in modules}
    folders = sorted(set(roots.values()))
    if len(folders) > 1:
        raise InvalidRequest(
            f"the functions of a PTK are imported from two folders, {folders[0]} and {folders[1]}: put them below one, "
            "so that they can travel together"
        )
    return Source(folders[0], _files(folders[0], modules))


def _module_of(thing: Any) -> str:
    """The module that a function or class can be imported from by its name."""
    name = str(getattr(thing, "__qualname__", type(thing).__name__))
    module = str(getattr(thing, "__module__", ""))
    advice = "define it by def on the outermost level of a module, and import it from there"
    if not isinstance(thing, FunctionType | type):
        raise InvalidRequest(
            f"a {type(thing).__name__} is no function that can be imported by name: {advice}"
        )
    if "<lambda>" in name or "<locals>" in name:
        kind = "a lambda" if name.endswith("<lambda>") else "defined inside a function"
        raise InvalidRequest(f"{name} is {kind}, which cannot travel: {advice}")
    if module == "__main__":
        raise InvalidRequest(
            f"{name} is defined in a notebook or in the script that runs (__main__), and cannot be imported where it "
            f"is trained. Move it to a file such as own_code.py, and write from own_code import {name}"
        )
    if "." in name:
        raise InvalidRequest(f"{name} is part of a class, and cannot be imported by name: {advice}")
    if getattr(sys.modules.get(module), name, None) is not thing:
        raise InvalidRequest(
            f"{module}.{name} is something else by now than what was given: import it again, and give that"
        )
    return module


def _root(module: str) -> Path:
    """The folder that a module was imported from."""
    file = Path(getattr(sys.modules[module], "__file__", None) or "")
    parts = module.split(".")
    levels = len(parts) if file.name == "__init__.py" else len(parts) - 1
    if len(file.parents) <= levels or file.suffix != ".py" or not file.is_file():
        raise InvalidRequest(f"module {module} has no Python file to send: team code is plain .py files")
    root = file.absolute().parents[levels]
    if _is_installed(root) or parts[0] in _EVERYWHERE | sys.stdlib_module_names:
        raise InvalidRequest(
            f"module {module} is an installed distribution; only team code is sent along: give functions of a "
            "module in your repository, which may call it"
        )
    if _file(root, module) is None:
        raise InvalidRequest(f"module {module} is not where its name says, below {root}")
    return root


def _files(root: Path, modules: Iterable[str]) -> Mapping[str, bytes]:
    """The files of modules below `root`, of the packages around them, and of what these import there."""
    files: dict[str, bytes] = {}
    waiting, seen = list(modules), set[str]()
    own: dict[str, bool] = {module.partition(".")[0]: True for module in waiting}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        top, _, _ = name.partition(".")
        if top not in own:
            own[top] = _comes_from(root, top)
        file = _file(root, name) if own[top] else None
        waiting += [name.rpartition(".")[0]] if "." in name else []  # it is run before
        if file is not None:
            content = files[file.relative_to(root).as_posix()] = _content(root, file)
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            waiting += _imports(content, package, file)
    return files


def _file(root: Path, module: str) -> Path | None:
    """The file of a module; None where there is none, as for a package without one and for all that is not here."""
    place = root.joinpath(*module.split("."))
    candidates = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((file for file in candidates if file.is_file()), None)


def _content(root: Path, file: Path) -> bytes:
    for place in (file, *file.parents):
        if place == root:
            return file.read_bytes()
        if place.is_symlink():
            raise InvalidRequest(
                f"{place} is a link, and a bundle has plain files: put the file itself there"
            )
    raise AssertionError(file)


def _comes_from(root: Path, top: str) -> bool:
    """Whether `import top` finds it below this folder, and not among what is installed."""
    if top in _EVERYWHERE | sys.stdlib_module_names:
        return False
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    places = () if spec is None else (spec.origin, *(spec.submodule_search_locations or ()))
    here = {root / top, root / top / "__init__.py", root / f"{top}.py"}
    return any(Path(place).absolute() in here for place in places if place)


def _is_installed(folder: Path) -> bool:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    places = {Path(sysconfig.get_path(kind)).absolute() for kind in kinds}
    places |= {Path(place).absolute() for place in (*site.getsitepackages(), site.getusersitepackages())}
    return any(place == folder or place in folder.parents for place in places)


def _imports(content: bytes, package: str, file: Path) -> list[str]:
    """What a module may import, by whole names; of `from a import b` both `a` and `a.b`."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        raise InvalidRequest(f"{file} cannot be read as Python: {error}") from None
    names: list[str] = []
    for node in _run(tree):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{one.name}" for one in node.names if one.name != "*")]
    return [name for name in names if name.strip(".")]


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Return all that may be run of a module, without what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and _is_for_types(node.test):
            for other in node.orelse:
                yield other
                yield from _run(other)
            continue
        yield node
        yield from _run(node)


def _is_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"
