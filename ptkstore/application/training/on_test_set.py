"""Common steps of validations and evaluations: both read a trained state and a test set, and release noisy sums."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ptkstore.application.ledger.charging import Price, reserve
from ptkstore.application.paid_runs.paid_run import ClaimedRun, Ended, PaidRun, Spent, left_of
from ptkstore.application.paid_runs.team_code_source import FetchedTeamCode
from ptkstore.application.planning.evaluation_plans import price_of_estimate
from ptkstore.domain.accounting.assurances import Assurance, assured
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.evaluations import AskedSums, RiskMass
from ptkstore.domain.jobs import Job, Outcome
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Denied
from ptkstore.domain.ptks.bundles import assurance_of
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import TEST, BlockSet, groups_where, part_blocks
from ptkstore.domain.streams.windows import WindowId
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.ports.row_processes import EvaluateRequest, Evaluator, OpenedRows, RunFailed


@dataclass(frozen=True, slots=True)
class Tested:
    """A trained state: its estimator as data, its files by the names they had when they were written, and its code.

    It has `code` where its losses are said by the code of a team. `windows` are those that its training opened, rising.
    """

    estimator: Mapping[str, Any]
    state: Mapping[str, bytes]
    code: FetchedTeamCode
    windows: tuple[int, ...]

    def label(self, ptk_id: str) -> dict[str, str | None]:
        """Say whose word losses are that the library does not compute; nothing of those that it does."""
        assurance = assurance_of(self.estimator)
        return {} if assurance is Assurance.LIBRARY else assured(assurance, ptk_id).document()


class OnTestSet(PaidRun[RiskMass]):
    """A paid run that has the loss of a state estimated on the test sets of the windows that it was trained on.

    It reserves on all their test blocks. Windows that have expired by then are left out.

    Parameters
    ----------
    tested : Tested
        The state.

    Attributes
    ----------
    denied : str
        The notice to the owner if a block has no room.
    """

    denied: ClassVar[str]

    def __init__(self, job: Job, tested: Tested, evaluator: Evaluator) -> None:
        super().__init__(job)
        self._tested, self._evaluator = tested, evaluator

    @property
    def windows(self) -> tuple[int, ...]:
        """Those that the training of the state opened."""
        return self._tested.windows

    @abstractmethod
    def asked(self, spec: PtkSpec) -> AskedSums | None:
        """Return the sums that a PTK pays for by now; None if it wants no such run any more."""

    def paid(self, spent: Spent) -> tuple[Loss, Loss | None]:
        """Return what was paid for the losses of the state, and for the least losses of its class."""
        reject = self._paid_for(spent).reject_epsilon
        least = None if reject is None else Loss.charge(reject)
        return spent.spend.loss - (least or NO_LOSS), least

    def _paid_for(self, spent: Spent) -> AskedSums:
        asked = self.asked(spent.spec)
        assert asked is not None  # `price` ended the run otherwise
        return asked

    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        """Reserve here, on all test blocks of the windows that are left."""
        spec, policy = claimed.spec, claimed.stream.policy
        if self._tested.code.is_spent:
            return Ended(Outcome.FAILED)
        asked = self.asked(spec)
        if asked is None:
            return Ended(Outcome.WITHDRAWN)
        price = price_of_estimate(self._tested.estimator, asked, policy)
        if not claimed.history:
            groups = groups_where(policy, spec.config.get("where"))
            left = (WindowId(claimed.stream.name, index) for index in left_of(claimed.states))
            blocks = BlockSet.of(*(part_blocks(TEST, window, policy, groups) for window in left))
            request = BudgetRequest.of_run(self.job, policy, blocks, price.loss, price.charge)
            if isinstance(reserve(uow, request, price.event), Denied):
                return Ended(Outcome.REFUSED, self.denied)
        return price

    def run(
        self, spent: Spent, rows: tuple[OpenedRows, ...], keep_alive: Callable[[], None]
    ) -> RiskMass | RunFailed:
        """Have the loss estimated for the epsilon that was paid."""
        of_state, of_class = self.paid(spent)
        request = EvaluateRequest(
            estimator=self._tested.estimator,
            epsilon=of_state.spendable_epsilon,
            state=self._tested.state,
            rows=rows,
            metric=self._paid_for(spent).metric,
            bundle=self._tested.code.bundle,
            reject_epsilon=None if of_class is None else of_class.spendable_epsilon,
            rows_per_unit=spent.stream.policy.max_rows_per_unit,
        )
        return self._evaluator.evaluate(request, keep_alive)
