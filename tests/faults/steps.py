"""The steps at which a fault can strike, found in the source of the use cases."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import ptkstore.application
from ptkstore.application.paid_runs.paid_run import PaidRun

KINDS = ("prepare", "allocate", "train", "partial", "place", "flip", "notify", "expire")
OF_PROFILES = ("profile", "drift")
OF_EVALUATIONS = ("evaluate",)
OF_VALIDATIONS = ("validate",)
OF_SCHEDULERS = ("schedule",)
OF_COMPARISONS = ("compare",)
OF_AVERAGES = ("average",)
DELIVERIES = ("notify", "redeliver")
KINDS_OF_MODULE = {
    "claim_job": (
        *KINDS,
        *OF_PROFILES,
        *OF_EVALUATIONS,
        *OF_VALIDATIONS,
        *OF_SCHEDULERS,
        *OF_COMPARISONS,
        *OF_AVERAGES,
    ),
    "average_ptk": OF_AVERAGES,
    "collect_partial": ("partial",),
    "evaluate_ptk": OF_EVALUATIONS,
    "validate_ptk": OF_VALIDATIONS,
    "profile_ptk": ("profile",),
    "detect_drift": ("drift",),
    "compare_significance": OF_COMPARISONS,
    "loss_releases": OF_COMPARISONS,
    "prepare_window": ("prepare",),
    "schedule_trainings": ("allocate", *OF_SCHEDULERS),
    "train_ptk": ("train",),
    "place_state": ("place",),
    "materialize_state": ("flip",),
    "deliver_event": DELIVERIES,
    "deliver_due": DELIVERIES,
    "expire_window": ("expire",),
}
_APPLICATION = Path(ptkstore.application.__path__[0])


@dataclass(frozen=True, order=True)
class Point:
    """A step of a kind of job."""

    kind: str
    step: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.step}"


def kind_of(job_id: str) -> str:
    """Ids begin with their kind."""
    return job_id.partition("/")[0]


def all_points(kinds: Sequence[str] = KINDS) -> tuple[Point, ...]:
    """Every call of `steps.reached` in these kinds of jobs; a computed step, or one in an unknown module, raises."""
    return tuple(sorted(point for point in _points_of_all_kinds() if point.kind in kinds))


def points_of(run: type[PaidRun[Any]]) -> frozenset[Point]:
    """The steps of a kind of paid run: those that all have, and its own two."""
    kinds = KINDS_OF_MODULE[run.__module__.rpartition(".")[2]]
    own = {"self._run.ran_step": run.ran_step, "self._run.kept_step": run.kept_step}
    steps = [own.get(ast.unparse(step)) or ast.literal_eval(step) for step in _steps_in("paid_run")]
    return frozenset(Point(kind, step) for step in steps for kind in kinds)


@cache
def _points_of_all_kinds() -> frozenset[Point]:
    points: set[Point] = set()
    for module, path in _modules().items():
        import_module(
            ".".join(("ptkstore.application", *path.relative_to(_APPLICATION).with_suffix("").parts))
        )
        if module != "paid_run":
            steps = [ast.literal_eval(step) for step in _steps_in(module)]
            points |= {Point(kind, step) for step in steps for kind in KINDS_OF_MODULE[module]}
    assert points, "no use case reaches a step"
    return frozenset(points).union(*map(points_of, paid_runs()))


@cache
def _modules() -> dict[str, Path]:
    paths = [path for path in _APPLICATION.rglob("*.py") if path.stem != "__init__"]
    modules = {path.stem: path for path in paths}
    assert len(modules) == len(paths), "two use cases have one name"
    return modules


@cache
def _steps_in(module: str) -> tuple[ast.expr, ...]:
    tree = ast.parse(_modules()[module].read_text())
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(call.args[0] for call in calls if ast.unparse(call.func).endswith(".reached"))


def paid_runs(base: type[PaidRun[Any]] = PaidRun) -> Iterator[type[PaidRun[Any]]]:
    """The kinds of paid runs: what has steps of its own."""
    for run in base.__subclasses__():
        yield from paid_runs(run)
        if hasattr(run, "ran_step"):
            yield run
