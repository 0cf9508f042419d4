"""Sage's Table 2 and Figure 6: pipelines that retry until a validator accepts, and the models that they accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from _common.pipelines import Pipeline
from _common.sla import VALIDATORS, Question, released
from ptklib.arrays import Floats, Ints

TEST_SHARE = 0.1
INJECTED = "ours, bad models let in"
INJECTED_SHARE = 0.1
LIMIT = 0.95


@dataclass(frozen=True)
class Look:
    """One look of a pipeline: rows for training and test together, and the epsilon of each."""

    n_rows: int
    epsilon: float

    @property
    def n_test(self) -> int:
        """Rows of the test set."""
        return round(self.n_rows * TEST_SHARE)


@dataclass(frozen=True)
class Plan:
    """What is measured of one pipeline.

    Parameters
    ----------
    looks : sequence of Look
        In this order, until one is accepted. Rows of earlier looks are used again.
    targets : sequence of float
        Largest expected losses.
    repeats : int
        Test sets for each seed and target.
    etas : sequence of float
    seeds : int
        Sequences of trained models.
    """

    looks: Sequence[Look]
    targets: Sequence[float]
    repeats: int
    etas: Sequence[float]
    seeds: int


@dataclass
class Accepted:
    """What one validator accepted at one eta: of each run the look that was accepted, or -1.

    Parameters
    ----------
    looks : list of ndarray of shape (n_targets, repeats), int64
        One for each seed.
    bad : list of ndarray of shape (n_targets, repeats), bool
        Whether the accepted model's expected loss exceeds the target.
    """

    looks: list[Ints] = field(default_factory=list)
    bad: list[np.ndarray] = field(default_factory=list)

    @cached_property
    def n(self) -> int:
        """Accepted models."""
        return int(sum((looks >= 0).sum() for looks in self.looks))

    @cached_property
    def violations(self) -> int:
        """Accepted models that miss their targets."""
        return int(sum(bad.sum() for bad in self.bad))

    @property
    def rate(self) -> float:
        """Violations among the accepted models."""
        return self.violations / max(self.n, 1)

    @property
    def limit(self) -> float:
        """Upper 95 % limit of `rate` (Clopper-Pearson)."""
        return upper_limit(self.violations, self.n)

    def rows(self, looks: Sequence[Look], target: int) -> Floats:
        """Return the mean rows to ACCEPT one target, for each seed; NaN where a run was never accepted."""
        sizes = np.append([float(look.n_rows) for look in looks], np.nan)  # the last stands for -1
        return np.array([sizes[found[target]].mean() for found in self.looks])


def upper_limit(failures: int, tries: int) -> float:
    """Return the one-sided 95 % limit of a probability (Clopper-Pearson)."""
    return 1.0 if failures >= tries else float(stats.beta.ppf(LIMIT, failures + 1, tries - failures))


def measure(pipeline: Pipeline, plan: Plan) -> dict[tuple[str, float], Accepted]:
    """Return what each validator accepts at each eta.

    Models are trained once for each seed and look. Each run of a seed, a target and a repeat draws test rows of its
    own. All validators see the same test rows.
    """
    found = {(name, eta): Accepted() for name in [*VALIDATORS, INJECTED] for eta in plan.etas}
    for seed in range(plan.seeds):
        rng = np.random.default_rng(seed)
        seen, true = _trained_and_tested(pipeline, plan, rng)
        let_in = rng.random((len(plan.targets), plan.repeats)) < INJECTED_SHARE
        for eta in plan.etas:
            for name in VALIDATORS:
                looks = _first_accepted(name, seen, plan, eta, pipeline.metric)
                _add(found[name, eta], looks, true, plan)
            first_bad = np.where(true[0] > np.asarray(plan.targets)[:, None], 0, looks)
            _add(found[INJECTED, eta], np.where(let_in, first_bad, looks), true, plan)
    return found


def _trained_and_tested(
    pipeline: Pipeline, plan: Plan, rng: np.random.Generator
) -> tuple[list[list], Floats]:
    """Return the test sets of each look, one for each run, and the expected loss of each look's model."""
    n_pool, n_runs = len(pipeline.population), len(plan.targets) * plan.repeats
    n_train = plan.looks[-1].n_rows - plan.looks[-1].n_test
    train = rng.integers(0, n_pool, n_train)
    test = rng.integers(0, n_pool, (n_runs, plan.looks[-1].n_test), dtype=np.int32)
    seen, true = [], []
    for look in plan.looks:
        losses = pipeline.losses(train[: look.n_rows - look.n_test], look.epsilon)
        lost = np.array([losses[run[: look.n_test]].sum() for run in test])
        seen.append(released(lost, look.n_test, look.epsilon))
        true.append(float(losses.mean()))
    return seen, np.array(true)


def _first_accepted(name: str, seen: list[list], plan: Plan, eta: float, metric: str) -> Ints:
    accepts = VALIDATORS[name]
    found = np.full(len(plan.targets) * plan.repeats, -1)
    for run in range(len(found)):
        target = plan.targets[run // plan.repeats]
        for look in range(len(seen)):
            if accepts(seen[look][run], Question(target, eta, look + 1, metric)):
                found[run] = look
                break
    return found.reshape(len(plan.targets), plan.repeats)


def _add(found: Accepted, looks: Ints, true: Floats, plan: Plan) -> None:
    found.looks.append(looks)
    found.bad.append((looks >= 0) & (true[looks] > np.asarray(plan.targets)[:, None]))


@dataclass(frozen=True)
class JustMissed:
    """How often a model is accepted whose expected loss is just above the target."""

    n_test: int
    epsilon: float
    eta: float
    accepted: Mapping[str, int]
    tries: int

    def to_json(self) -> dict[str, Any]:
        """Return the case as plain values."""
        return asdict(self)


def just_missed(
    pipeline: Pipeline, n_train: int, sizes: Sequence[int], epsilons: Sequence[float], plan: Plan, tries: int
) -> list[JustMissed]:
    """Ask the validators for the target that a model misses by a millionth of it: the hardest case there is."""
    counts: dict[tuple[int, float, float], dict[str, int]] = {}
    for seed in range(plan.seeds):
        rng = np.random.default_rng(1000 + seed)
        losses = pipeline.losses(rng.integers(0, len(pipeline.population), n_train), 1.0)
        target = float(losses.mean()) * (1 - 1e-6)
        for n_test in sizes:
            lost = losses[rng.integers(0, len(losses), (tries, n_test))].sum(axis=1)
            for epsilon in epsilons:
                seen = released(lost, n_test, epsilon)
                for eta in plan.etas:
                    asked = Question(target, eta, 1, pipeline.metric)
                    found = counts.setdefault((n_test, epsilon, eta), dict.fromkeys(VALIDATORS, 0))
                    for name, accepts in VALIDATORS.items():
                        found[name] += sum(accepts(one, asked) for one in seen)
    return [JustMissed(*case, found, tries * plan.seeds) for case, found in counts.items()]


def holds(limit: float, eta: float) -> bool:
    """Return whether a rate was shown to be below eta."""
    return limit < eta
