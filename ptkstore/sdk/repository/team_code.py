"""Team code: how a repository declares it, and how it becomes a bundle."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypedDict

from ptkstore.domain.ptks.bundles import BUNDLE_BYTES_MAX, BUNDLE_FILES_MAX, pack, sha256_of
from ptkstore.errors import InvalidRequest, TooLarge

DECLARATIONS: Final = "ptks.py"
_LEFT_OUT = ("__pycache__", "tests", "node_modules")


@dataclass(frozen=True, eq=False, kw_only=True)
class TeamFunctions:
    """The paper's `train_dp` and `eval` as a team declares them, in place of an estimator.

    They are run in a sandbox, and what they lose is what the team says: such a PTK is `asserted`.

    Parameters
    ----------
    train_dp : function
        ``train_dp(trainset_iter, epsilon, previous_model_state, previous_config)`` of a module of the repository. The
        first is an iterator of pyarrow tables with `columns`; the third a mapping of table names to tables, or None.
        It returns such a mapping and spends `epsilon`.
    eval : function, optional
        ``eval(testset_iter, model_state)``; a float. It is run on synthetic rows only.
    row_losses : function, optional
        ``row_losses(state, rows)``; the loss of each row, from a mapping of table names to tables and a pyarrow table
        with `columns`. With it the PTK may have `epsilons`, `profile`, `evaluate` and `accept`. The loss of a row must
        depend on that row and the state alone, in its last bit too: what is released of losses is `asserted` by that.
    loss_max : float
        B, the largest loss of a row. The store clips each to [0, B], and `target` is in parts of B.
    columns : sequence of str
        Columns of the stream that `train_dp` is given.
    tables : mapping
        Each table by name as ``{"keys": ["hour"], "columns": {"hour": "int64", "trips": "float64"}}``; types are
        int64, float64, string and bool. With ``"rows": 24`` a training that returns another number of rows fails.
        ``"domains": {"hour": range(24)}`` declares which values keys and texts may have; a training that returns
        another one fails. Streams that do not allow `asserted_text` want it for all of them.
    epsilon, delta : float
        What one training loses.
    config : mapping, optional
        Plain JSON that `train_dp` gets as `previous_config`.
    synthetic : mapping of column to values or (low, high), optional
        What is publicly known of `columns`: synthetic rows for checks and audits are made of it.
    selected : sequence of str
        Tables whose keys are themselves chosen with differential privacy. Of others the number of rows is fixed.
    unit : str, optional
        Column of the user, where the loss is towards all of a user's rows.
    max_rows_per_unit : int
        How many rows of a user the loss is for.
    """

    train_dp: Callable[..., Any]
    eval: Callable[..., Any] | None = None
    row_losses: Callable[..., Any] | None = None
    loss_max: float = 1.0
    columns: Sequence[str]
    tables: Mapping[str, Mapping[str, Any]]
    epsilon: float
    delta: float = 0.0
    config: Mapping[str, Any] | None = None
    synthetic: Mapping[str, Any] | None = None
    selected: Sequence[str] = ()
    unit: str | None = None
    max_rows_per_unit: int = 1


class FunctionFacts(TypedDict, total=False):
    """What is said of `train_dp` beside it, as `TeamFunctions` tells it; `arguments` is what that calls `config`."""

    columns: Sequence[str]
    tables: Mapping[str, Mapping[str, Any]]
    epsilon: float
    delta: float
    arguments: Mapping[str, Any] | None
    synthetic: Mapping[str, Any] | None
    selected: Sequence[str]
    unit: str | None
    max_rows_per_unit: int
    row_losses: Callable[..., Any] | None
    loss_max: float


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a folder that code may need, and the module that a repository's declarations are run as.

    There are no declarations where code was imported.
    """

    folder: Path
    files: Mapping[str, bytes]
    declared_as: str | None = None

    def entry(self, thing: Any) -> str:
        """Return where a class or function of the repository is, as ``module:name``.

        Raises
        ------
        InvalidRequest
            It lies elsewhere, or in no module's outermost level.
        """
        module, name = str(thing.__module__), str(thing.__qualname__)
        module = Path(DECLARATIONS).stem if module == self.declared_as else module
        path = module.replace(".", "/")
        if not ({f"{path}.py", f"{path}/__init__.py"} & set(self.files)) or not name.isidentifier():
            raise InvalidRequest(
                f"{module}:{name} is no class or function on the outermost level of a module in {self.folder}: only "
                "that can travel to where it is run"
            )
        return f"{module}:{name}"

    def bundle(self, entries: Iterable[str]) -> bytes:
        """Return what has to travel for these entries: all files but the declarations, unless an entry is in them.

        So a changed target or description is no changed code.
        """
        if self.declared_as is None:
            return pack(self.files)
        declares = {entry.partition(":")[0] for entry in entries} & {Path(DECLARATIONS).stem}
        files = {path: content for path, content in self.files.items() if declares or path != DECLARATIONS}
        return pack(files)


def is_team_code(estimator: Any) -> bool:
    """Return whether something that was declared is a team's code, not a family of the library."""
    from ptklib.families import FAMILIES

    if isinstance(estimator, TeamFunctions):
        return True
    kind = type(estimator)
    return hasattr(estimator, "to_spec") and FAMILIES.get(kind.__name__) not in (
        kind.__module__,
        kind.__module__.rpartition(".")[0],
    )


def functions_of(
    train_dp: Callable[..., Any], eval: Callable[..., Any] | None, facts: FunctionFacts
) -> TeamFunctions:
    """Two functions with what is said of them, or `InvalidRequest` where something is missing."""
    if missing := [name for name in ("columns", "tables", "epsilon") if name not in facts]:
        raise InvalidRequest(
            f"train_dp is a function, and {' and '.join(missing)} must be said of it: columns=[...] is all that it is "
            "given, tables={...} what it returns, epsilon=... what one training loses; see ptkstore.TeamFunctions"
        )
    if unknown := sorted(set(facts) - set(FunctionFacts.__annotations__)):
        raise InvalidRequest(
            f"nothing is known of {unknown[0]!r}; of a function are said: {', '.join(FunctionFacts.__annotations__)}"
        )
    options: dict[str, Any] = dict(facts)
    arguments = options.pop("arguments", None)
    return TeamFunctions(train_dp=train_dp, eval=eval, config=arguments, **options)


def described(estimator: Any, source: Source) -> tuple[Mapping[str, Any], bytes]:
    """Team code as data, and the bundle that holds it.

    Raises
    ------
    InvalidRequest
        It is not in the repository, or cannot be described.
    """
    from ptklib.team import TeamCode

    try:
        given = _of_functions(estimator, source) if isinstance(estimator, TeamFunctions) else None
        given = given or _of_estimator(estimator, source)
        entries = [given[name] for name in ("code", "eval", "row_losses") if given.get(name)]
        bundle = source.bundle(entries)
        team_code = TeamCode(bundle=sha256_of(bundle), **given)
        team_code.declared_loss()
        return team_code.to_spec(), bundle
    except KeyError as error:
        raise InvalidRequest(
            f"team code cannot be described: a table needs keys and columns, {error} is missing"
        ) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidRequest(f"team code cannot be described: {error}") from error


def source_of(folder: Path, declared_as: str, bundle: Mapping[str, Any]) -> Source:
    """Return the code of a repository: its modules, and what `[bundle]` of its team.toml includes.

    Hidden and temporary folders, environments and tests are left out.

    Raises
    ------
    InvalidRequest
        A file is a link, or its path none that a bundle can hold.
    """
    include, exclude = (_patterns(bundle.get(name, []), name) for name in ("include", "exclude"))
    if unknown := sorted(set(bundle) - {"include", "exclude"}):
        raise InvalidRequest(f"[bundle] of team.toml has {unknown[0]!r}; it may have include and exclude")
    files: dict[str, bytes] = {}
    room = BUNDLE_BYTES_MAX
    for path in _paths(folder):
        name = path.relative_to(folder).as_posix()
        wanted = name.endswith(".py") or _matches(name, include)
        if not wanted or _matches(name, exclude):
            continue
        if path.is_symlink() or not path.is_file():
            raise InvalidRequest(
                f"{name} is a link; a bundle has plain files: leave it out by [bundle] exclude"
            )
        files[name] = path.read_bytes()
        room -= len(files[name])
        if room < 0 or len(files) > BUNDLE_FILES_MAX:
            raise TooLarge(
                f"the code of {folder} is more than a bundle may have ({BUNDLE_BYTES_MAX} bytes, {BUNDLE_FILES_MAX} "
                "files): leave files out by [bundle] exclude in team.toml"
            )
    return Source(folder, files, declared_as)


def _of_functions(declared: TeamFunctions, source: Source) -> dict[str, Any]:
    tables = {
        name: {
            "keys": list(form["keys"]),
            "columns": _pairs(form["columns"]),
            **({"rows": form["rows"]} if "rows" in form else {}),
            **_domains(form.get("domains")),
        }
        for name, form in declared.tables.items()
    }
    return {
        "code": source.entry(declared.train_dp),
        "eval": None if declared.eval is None else source.entry(declared.eval),
        "row_losses": None if declared.row_losses is None else source.entry(declared.row_losses),
        "loss_max": declared.loss_max,
        "arguments": declared.config,
        "columns": list(declared.columns),
        "tables": tables,
        "selected": list(declared.selected),
        "synthetic": None
        if declared.synthetic is None
        else {name: list(values) for name, values in declared.synthetic.items()},
        "epsilon": declared.epsilon,
        "delta": declared.delta,
        "unit": declared.unit,
        "max_rows_per_unit": declared.max_rows_per_unit,
        "noise_names": [],
    }


def _of_estimator(estimator: Any, source: Source) -> dict[str, Any]:
    params = dict(estimator.to_spec()["params"])
    budget = {"epsilon": params.pop("epsilon"), "delta": params.pop("delta", 0.0)}
    domains = estimator.released_domains()
    code, losses = source.entry(type(estimator)), callable(getattr(type(estimator), "row_losses", None))
    return {
        "code": code,
        "row_losses": code if losses else None,
        "loss_max": getattr(estimator, "loss_max", 1.0) if losses else 1.0,
        "arguments": params,
        "columns": list(estimator.required_columns()),
        "tables": {
            name: {**form.to_json(), **_domains(domains.get(name))}
            for name, form in estimator.table_schemas().items()
        },
        "selected": list(estimator.released_keys()),
        "unit": estimator.unit,
        "max_rows_per_unit": estimator.max_rows_per_unit,
        "noise_names": _noise_names(estimator),
        **budget,
    }


def _domains(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The declared values of a table's columns as they travel; nothing where there are none."""
    from ptklib.declared import as_declared

    return {"domains": {column: as_declared(values) for column, values in given.items()}} if given else {}


def _noise_names(estimator: Any) -> list[str]:
    """What a class names the variances of its noise: as many with no row at all as with any."""
    try:
        return sorted(estimator.finalize([]).noise_variance_)
    except Exception:  # noqa: BLE001 - a team's class may raise anything; the checks of a plan tell what
        return []


def _pairs(columns: Any) -> list[list[str]]:
    return [list(pair) for pair in (columns.items() if isinstance(columns, Mapping) else columns)]


def _paths(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _LEFT_OUT
            and not (here / name / "pyvenv.cfg").exists()
        )
        yield from (here / name for name in sorted(names) if not name.startswith("."))


def _patterns(given: Any, name: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(pattern, str) for pattern in given):
        raise InvalidRequest(f"[bundle] {name} of team.toml is a list of patterns such as 'data/*.json'")
    return tuple(given)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
