"""Evaluations: the paid estimate of a version's loss on its window's test set, the only one that ever leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ptkstore.domain.accounting.assurances import UNKNOWN, Assured
from ptkstore.domain.accounting.losses import checked_epsilon
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class RiskMass:
    """Noisy sums over the privacy units of a test set: of their losses, and of what is missing in each to 1."""

    lost: int
    kept: int


@dataclass(frozen=True, slots=True)
class JudgedMass(RiskMass):
    """The sums of a state's losses with the `minimum`: those of the least losses of its class on the same rows."""

    minimum: RiskMass

    @property
    def of_state(self) -> RiskMass:
        """The sums of the state's losses alone."""
        return RiskMass(self.lost, self.kept)


@dataclass(frozen=True, slots=True)
class GroupedMass(RiskMass):
    """The sums of values in each of the `groups`, from one release; `lost` and `kept` add them up."""

    groups: tuple[RiskMass, ...]

    @classmethod
    def of(cls, groups: tuple[RiskMass, ...]) -> GroupedMass:
        """Add up the sums of groups."""
        return cls(sum(one.lost for one in groups), sum(one.kept for one in groups), groups)

    @property
    def of_state(self) -> RiskMass:
        """The sums over all groups."""
        return RiskMass(self.lost, self.kept)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The release about version `number` of a PTK, for `epsilon` on the test blocks of its windows.

    `windows` are those whose test sets were opened, rising. `assured` is that of the version: where it is a team's
    word, so are the losses that were summed. The reader of the version fills it in.
    """

    ptk_id: str
    number: int
    job_id: str
    windows: tuple[int, ...]
    epsilon: float
    mass: RiskMass
    at: datetime
    assured: Assured = UNKNOWN

    @property
    def window_index(self) -> int:
        """The newest of its windows."""
        return self.windows[-1]


@dataclass(frozen=True, slots=True)
class AskedSums:
    """The noisy sums of a test set that a PTK pays for.

    `epsilon` is for the sums of the `metric` of a state, `reject_epsilon` for those of the least losses of its class
    on the same rows beside them. The latter is None if these are not asked for, and no verdict is REJECT.
    """

    epsilon: float
    metric: str = "loss"
    reject_epsilon: float | None = None


def evaluation_sums(config: Mapping[str, Any]) -> AskedSums | None:
    """Return what a PTK pays for the estimate of each version's loss; None for one that wants none.

    Raises
    ------
    InvalidRequest
        `evaluate` is no mapping of `epsilon` to a number in [1e-6, 10].
    """
    given = config.get("evaluate")
    if given is None:
        return None
    if not isinstance(given, Mapping) or set(given) != {"epsilon"}:
        raise InvalidRequest('evaluate of a PTK says what an estimate costs, as {"epsilon": 0.1}')
    return AskedSums(float(checked_epsilon(given["epsilon"], "epsilon of evaluate")))
