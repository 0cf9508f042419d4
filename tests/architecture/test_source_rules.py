"""Rules every module keeps that linters do not know."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source import Module, folders_without_init, modules

LINES = 450
PARAMETERS = 8

SERIALISERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
PICKLING = {"read_pickle", "to_pickle", "allow_pickle"}
RANDOM = {"random", "numpy.random", "scipy.stats.sampling"}
DRAWING = {"default_rng", "RandomState", "rvs"}

# The demo makes up taxi trips: input data, as public as their seed; they protect nobody.
MAKES_UP_DATA = Path("ptkstore/cli/demo/trips.py")


def imported(tree: ast.Module) -> Iterator[str]:
    """Return every dotted name a module imports, the names it takes from modules included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def mentioned(tree: ast.Module) -> Iterator[str]:
    """Return names, attributes and keyword arguments that a module uses."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)):
                yield name


def within(name: str, banned: set[str]) -> bool:
    """Tell whether `name` is one of the banned modules or lies in one."""
    return any(name == module or name.startswith(f"{module}.") for module in banned)


def runs_code_when_read(module: Module) -> list[str]:
    """Return what makes a module read or write pickles or their kin."""
    return [name for name in imported(module.tree) if within(name, SERIALISERS)] + [
        name for name in mentioned(module.tree) if name in PICKLING
    ]


def draws_from_numpy(module: Module) -> list[str]:
    """Return what makes a module draw from a generator that is not cryptographic."""
    attributes = {
        ast.unparse(node)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"np.random", "numpy.random"}
    }
    return [
        *sorted(attributes),
        *(name for name in imported(module.tree) if within(name, RANDOM)),
        *(name for name in mentioned(module.tree) if name in DRAWING),
    ]


def too_long(module: Module) -> list[str]:
    """Return the length of a module that holds more than one job."""
    lines = module.text.count("\n")
    return [f"{lines} lines"] if lines > LINES else []


ASKING = {f"ptkstore.{room}" for room in ("api", "console", "cli", "sdk", "serving")}
TRANSACTIONS = {"begin", "read", "read_one_moment"}


def begins_transactions(module: Module) -> list[str]:
    """Return where a module that asks use cases begins a transaction, hands one on, or takes the catalog itself."""
    if module.room not in ASKING:
        return []
    found = []
    for node in ast.walk(module.tree):
        match node:
            case ast.With() | ast.AsyncWith():
                begun = (item.context_expr for item in node.items)
                names = {ast.unparse(one.func).split(".")[-1] for one in begun if isinstance(one, ast.Call)}
                found += sorted(names & TRANSACTIONS)
            case ast.keyword(arg="begin" | "read" as name) | ast.Attribute(attr="catalog" as name):
                found.append(name)
            case ast.Name(id="uow" as name):
                found.append(name)
    return found


def too_many_parameters(module: Module) -> list[str]:
    """Return functions of the service whose dependencies should travel as named groups; ptklib has estimators."""
    if module.path.parts[0] == "ptklib":
        return []
    functions = (n for n in ast.walk(module.tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [one.name for one in functions if len(parameters(one)) > PARAMETERS]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names of what a function is given, but for the object it is a method of."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


Rule = Callable[[Module], list[str]]


@cache
def found() -> dict[Rule, dict[str, list[str]]]:
    """What each rule finds, by path; a module is parsed once and its tree is not kept."""
    told: dict[Rule, dict[str, list[str]]] = {
        rule: {}
        for rule in (
            runs_code_when_read,
            draws_from_numpy,
            too_long,
            begins_transactions,
            too_many_parameters,
        )
    }
    for module in modules():
        for rule, by_path in told.items():
            if broken := rule(module):
                by_path[str(module.path)] = broken
    return told


def test_nothing_is_pickled():
    assert found()[runs_code_when_read] == {}


# Starts, candidates and orders from public seeds: any other choice would be as private.
FROM_PUBLIC_SEEDS = {
    "ptklib/clustering/centres.py",
    "ptklib/clustering/tree.py",
    "ptklib/embeddings/factors.py",
    "ptklib/sgd/start.py",
    "ptklib/trees/boosting.py",
    "ptklib/trees/counted.py",
    "ptklib/trees/forest.py",
    "ptklib/trees/greedy.py",
    "ptklib/trees/structure.py",
}


def test_numpy_draws_the_demos_trips_and_what_public_seeds_start_and_nothing_else():
    assert set(found()[draws_from_numpy]) == {str(MAKES_UP_DATA), *FROM_PUBLIC_SEEDS}


def test_no_module_is_longer_than_one_job():
    assert found()[too_long] == {}


def test_nothing_that_asks_use_cases_begins_a_transaction():
    assert found()[begins_transactions] == {}


# A command, and what people call from Python: their parameters are what a stream or a PTK may be told.
PUBLIC = {
    "ptkstore/cli/streams/creation.py": ["create"],
    "ptkstore/cli/streams/simulate.py": ["simulate"],
    "ptkstore/sdk/store.py": ["register_ptk"],
    "ptkstore/sdk/streams.py": ["create_stream"],
}


def test_no_function_of_the_service_takes_more_than_eight_parameters_but_what_people_call():
    assert found()[too_many_parameters] == PUBLIC


def test_every_folder_of_modules_is_a_package_so_that_the_import_rules_see_it():
    assert list(folders_without_init()) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (runs_code_when_read, "import pickle"),
        (runs_code_when_read, "def f():\n    from joblib import dump"),
        (runs_code_when_read, "import importlib\nimportlib.import_module('marshal')"),
        (runs_code_when_read, "import numpy as np\nnp.load('x', allow_pickle=True)"),
        (runs_code_when_read, "import pandas\npandas.read_pickle('x')"),
        (draws_from_numpy, "import random"),
        (draws_from_numpy, "from random import gauss"),
        (draws_from_numpy, "import numpy as np\nnoise = np.random.laplace(size=3)"),
        (draws_from_numpy, "import numpy.random as r"),
        (draws_from_numpy, "from numpy import random"),
        (draws_from_numpy, "from numpy.random import default_rng"),
        (draws_from_numpy, "from scipy import stats\nstats.norm.rvs(3)"),
        (too_long, "\n" * (LINES + 1)),
    ],
)
def test_a_rule_sees_what_it_is_for(rule: Callable[[Module], list[str]], text: str):
    assert rule(Module(Path("ptklib/bad.py"), text))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (runs_code_when_read, "import json\nfrom ptklib import state"),
        (draws_from_numpy, "import secrets\nfrom ptkstore.domain import randomness\nrandomised = 1"),
        (too_long, "\n" * LINES),
    ],
)
def test_a_rule_lets_good_code_pass(rule: Callable[[Module], list[str]], text: str):
    assert rule(Module(Path("ptklib/good.py"), text)) == []


def test_parameters_are_counted_in_the_service_alone():
    text = "class C:\n    def f(self, a, b, c, d, e, f, g, /, h, *, i=0): ..."
    assert too_many_parameters(Module(Path("ptkstore/bad.py"), text)) == ["f"]
    assert too_many_parameters(Module(Path("workers/good.py"), text.replace(", *, i=0", ""))) == []
    assert too_many_parameters(Module(Path("ptklib/good.py"), text)) == []


def test_a_folder_without_init_is_seen(tmp_path: Path):
    for folder in ("ptklib", "ptkstore/cli/demo", "workers"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "module.py").touch()
    (tmp_path / "ptklib" / "__init__.py").touch()

    assert list(folders_without_init(tmp_path)) == [Path("ptkstore/cli/demo"), Path("workers")]


@pytest.mark.parametrize(
    "text",
    [
        "with caller.service.read() as view:\n    pass",
        "with store.service.begin():\n    pass",
        "uow.streams.all()",
        "recommend_rows(stream, begin=service.read)",
        "service.catalog.journal_view()",
    ],
)
def test_transactions_are_seen_where_use_cases_are_asked_and_there_alone(text: str):
    assert begins_transactions(Module(Path("ptkstore/api/routes/bad.py"), text))
    assert begins_transactions(Module(Path("ptkstore/serving.py"), text))
    assert not begins_transactions(Module(Path("ptkstore/application/good.py"), text))
