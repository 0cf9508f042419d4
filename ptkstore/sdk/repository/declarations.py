"""PTKs as a team's repository declares them."""

from __future__ import annotations

import runpy
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptkstore.domain.fields import fields_of
from ptkstore.domain.names import checked_name
from ptkstore.domain.ptks.ptks import CONFIG_KEYS, PTK_ARGUMENTS
from ptkstore.domain.ptks.serving import plain
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import InvalidRequest
from ptkstore.sdk.repository.faults import line_of
from ptkstore.sdk.repository.team_code import DECLARATIONS, Source, described, is_team_code, source_of


@dataclass(frozen=True)
class PTK:
    """One feature model of a team.

    Parameters
    ----------
    name : str
        `[a-z][a-z0-9_]*` without `__`; the PTK's id becomes `<team>.<name>`.
    stream : str
        The stream it is trained on.
    estimator : ptklib estimator, an estimator of the team's own, or TeamFunctions
        The model to train. Its `epsilon` and `delta` are the loss of one training. The store runs team code in a
        sandbox, and the PTK is `asserted` (docs/guide/team-code.md).
    target : float, optional
        The error that it aims at: positive, in the unit of the estimator's evaluation, or of the loss that it is
        profiled by. With `epsilons`, the store chooses rows and epsilon by it. A PTK that devices train has
        none; every other one needs it.
    every : str
        The time between two trainings, such as '1d': a multiple of the stream's window, fixed once it is registered.
        It is trained on windows whose number is a multiple of it. Windows count from 0 at the stream's origin.
    where : mapping, optional
        The column that the stream's blocks are by, and the value or values to train on alone; all by default.
    description : str
        One line for those who look for features.
    windows : (least, most)
        How many windows one training may read, with one draw of noise: at most as many as the stream keeps. By default
        (1, 1), the window that has just closed.
    epsilons : (least, most), optional
        The epsilons that the store may choose from. It chooses epsilon and rows that are expected to reach `target`,
        so that all PTKs together open the fewest rows. Counts, most statistics and covariances have a formula for
        that. Others are profiled by samples.
    pinned : mapping, optional
        Its place in a window, as far as it is fixed: `partition`, counted from 0, `rows`, or both. See
        docs/allocation.md.
    profile : mapping, optional
        How it is profiled: `budget`, `points`, `n_min`, `n_max`, `growth`, `models`, `evaluation`, `batch`,
        `loss_bounds`, `confidence`, `tries`, `max_age`, `drift`. docs/guide/profiling.md describes them.
    accept : mapping, optional
        The test that a trained state has to pass to become a version, as ``{"metric": "loss", "epsilon": 0.05}``; none
        by default. Each look costs epsilon, and `confidence` is 0.95 by default. A PTK that devices train also names
        the `stream` whose labelled rows test it. See docs/guide/validated-versions.md.
    evaluate : mapping, optional
        What an estimate of each version's loss on its test set costs, as ``{"epsilon": 0.1}``; none by default.
    recency : int, optional
        On a stream with the scheduler 'budgeting': after how many windows old rows teach the PTK nothing. The newest
        window has significance 1, which falls evenly to 0 at this age (docs/guide/scheduling.md).
    serve : mapping, optional
        How online answers are filled and derived: `defaults` for missing ones, `fresh` for stale ones, `request` and
        `derived`. A PTK with several tables says it by table. `computed` is computed at lookup from numbers that a
        request sends along. docs/guide/feast.md describes them.
    start_from : mapping, optional
        For a PTK that devices train: the version of a central PTK of the team that they begin with, as
        ``{"ptk": "team.name", "version": 1}``. docs/guide/device-streams.md tells more.
    tags : sequence of str
        Words to find it by, such as ``("ads", "fraud")``: at most 10, of small letters, digits, `_` and `-`. They are
        public, as the description is.
    """

    name: str
    stream: str
    estimator: Any
    target: float | None = None
    every: str = "1d"
    description: str = ""
    windows: tuple[int, int] = (1, 1)
    where: Mapping[str, Any] | None = None
    epsilons: tuple[float, float] | None = None
    profile: Mapping[str, Any] | None = None
    evaluate: Mapping[str, float] | None = None
    accept: Mapping[str, Any] | None = None
    serve: Mapping[str, Any] | None = None
    start_from: Mapping[str, Any] | None = None
    pinned: Mapping[str, int] | None = None
    recency: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, Any]:
        """The fields of a config that are given; they are registered beside the estimator."""
        given = {name: value for name, value in fields_of(self).items() if name in CONFIG_KEYS}
        return {name: plain(value) for name, value in given.items() if value is not None}

    def wanted(self, spec: Mapping[str, Any]) -> WantedPtk:
        """Return the PTK as it is registered, with its estimator as data."""
        said = {word: plain(getattr(self, one.name)) for word, one in PTK_ARGUMENTS.items()}
        return WantedPtk(self.name, {**said, "estimator": spec})


@dataclass(frozen=True)
class Repository:
    """A team's repository: its name, the PTKs it declares, and its code where a PTK is trained by some."""

    team: str
    ptks: tuple[PTK, ...]
    source: Source | None = None

    def spec(self, ptk: PTK) -> Mapping[str, Any]:
        """Return the estimator of a PTK as data."""
        return self.described(ptk)[0]

    def described(self, ptk: PTK) -> tuple[Mapping[str, Any], bytes | None]:
        """Return the estimator of a PTK as data, and its bundle if it is the team's own."""
        if self.source is None or not is_team_code(ptk.estimator):
            return estimator_spec(ptk.estimator), None
        return described(ptk.estimator, self.source)


def estimator_spec(estimator: Any) -> Mapping[str, Any]:
    """Return an estimator as data; `InvalidRequest` for anything that is not one of ptklib's."""
    to_spec = getattr(estimator, "to_spec", None)
    if is_team_code(estimator):
        raise InvalidRequest(
            f"{type(estimator).__name__} is team code, which has to travel: declare it in the team's "
            "repository for `ptk apply`, or give it to `Store.register_ptk`"
        )
    if to_spec is None:
        raise InvalidRequest(f"{type(estimator).__name__} is no ptklib estimator, and no function")
    try:
        spec: Mapping[str, Any] = to_spec()
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    return spec


def team_of(folder: Path) -> str:
    """Return the team whose repository this is, by its `team.toml` alone; `InvalidRequest` where there is none."""
    team: str = _settings(folder.resolve())["team"]
    return team


def load_repository(folder: Path) -> Repository:
    """Read `team.toml` and run `ptks.py` of a team's repository.

    Raises
    ------
    InvalidRequest
        A file is missing, does not run, or declares a name twice.
    """
    folder = folder.resolve()
    settings = _settings(folder)
    team = settings["team"]
    source = folder / DECLARATIONS
    if not source.is_file():
        raise InvalidRequest(f"{folder} needs a ptks.py that declares PTK(...) objects")
    with _importing_from(folder):
        try:
            declared = runpy.run_path(str(source), run_name=_run_name(team))
        except _TEAM_ERRORS as error:
            raise InvalidRequest(
                f"{source}{line_of(error, source)} does not run: {type(error).__name__}: {error}"
            ) from error
    ptks = tuple(value for value in declared.values() if isinstance(value, PTK))
    names = [ptk.name for ptk in ptks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRequest(f"{source} declares twice: {', '.join(twice)}")
    if not any(is_team_code(ptk.estimator) for ptk in ptks):
        return Repository(team, ptks)
    bundle = settings.get("bundle", {})
    if not isinstance(bundle, dict):
        raise InvalidRequest("bundle of team.toml is a section with include and exclude")
    return Repository(team, ptks, source_of(folder, _run_name(team), bundle))


def _settings(folder: Path) -> dict[str, Any]:
    """Read `team.toml`, which has the name of the team."""
    file = folder / "team.toml"
    try:
        settings = tomllib.loads(file.read_text())
        checked_name("team", settings["team"])
    except FileNotFoundError:
        raise InvalidRequest(
            f"{folder} is no team's repository, as it has no team.toml: name another folder, or begin a repository "
            "with ptk init FOLDER --team NAME"
        ) from None
    except (OSError, KeyError, ValueError) as error:
        raise InvalidRequest(f'{file} needs: team = "<name>" ({type(error).__name__})') from error
    return settings


def _run_name(team: str) -> str:
    return f"_team_{team}"


# What a repository's team code may raise while it is read; `sys.exit` there must not look like success.
_TEAM_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    SystemExit,
    TypeError,
    ValueError,
)


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let a repository import its own modules, as they are now and for itself alone.

    No byte code is written: its time stamps have whole seconds, so that an edit within one would be missed.
    """
    before = set(sys.modules)
    wrote = not sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = not wrote
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if folder in Path(getattr(sys.modules[name], "__file__", None) or "/").parents:
                del sys.modules[name]
