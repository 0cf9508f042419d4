"""Validate a trained state on its windows' test sets, and elect it if it passes (Sage SOSP'19, section 3.3).

A model that devices train has no rows in the store: a window of its labelled stream tests it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from ptkstore.application.ledger.charging import Price
from ptkstore.application.paid_runs.paid_run import (
    CHANGED,
    ClaimedRun,
    Ended,
    Opening,
    Spending,
    Spent,
    pay_and_run,
)
from ptkstore.application.paid_runs.team_code_source import FetchedTeamCode, TeamCodeSource
from ptkstore.application.ptks.earlier_looks import earlier_looks
from ptkstore.application.ptks.giving_up import give_up
from ptkstore.application.training.on_test_set import OnTestSet, Tested
from ptkstore.application.versions.candidates import Candidate, asked_of, read_candidate
from ptkstore.application.versions.drafts import destroy_drafts
from ptkstore.application.versions.elections import elect
from ptkstore.domain.evaluations import (
    AskedSums,
    Evaluation,
    GroupedMass,
    JudgedMass,
    RiskMass,
)
from ptkstore.domain.jobs import Job, JobState, Outcome
from ptkstore.domain.notices import Notice
from ptkstore.domain.ptks.accept import Accept
from ptkstore.domain.ptks.accept_deadlines import GivenUp
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.validations import ACCEPT, REJECT, Validation
from ptkstore.domain.versions.manifests import accepted_manifest
from ptkstore.domain.versions.provenance import is_local
from ptkstore.domain.versions.state_windows import opened_windows
from ptkstore.errors import CorruptObject, UnknownName, WindowGone
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.objects import Staging
from ptkstore.ports.row_processes import Evaluator

UNREADABLE: Final = "candidate-unreadable"
NO_CONFIDENCE_LEFT: Final = "confidence-used-up"


def validate_ptk(
    job: Job,
    spending: Spending,
    opening: Opening,
    *,
    code: TeamCodeSource,
    staging: Staging,
    evaluator: Evaluator,
) -> None:
    """Release one verdict on a trained state, at most, from the test blocks of its windows.

    A state that is accepted becomes the next version in the transaction that keeps the verdict. The draft of any other
    one is destroyed with its key: nothing that was not validated leaves staging. If the verdict says that no model of
    the class meets the target, the transaction that keeps it gives the PTK up. So it does if no look could accept the
    PTK.

    Parameters
    ----------
    code : TeamCodeSource
        The source of the code of a state of team code: it says the loss of each row.
    """
    draft_id = str(job.draft_id)
    try:  # before the loss is spent
        candidate = read_candidate(draft_id, opening.keys, staging)
        estimator = candidate.content["config"]
        windows = (job.window.index,) if is_local(candidate.content) else opened_windows(candidate.content)
        tested = Tested(estimator, candidate.state, code.of_estimator(job, estimator), windows)
    except (CorruptObject, UnknownName, WindowGone):
        candidate, tested = None, Tested({}, {}, FetchedTeamCode(), (job.window.index,))
    pay_and_run(_Validating(job, candidate, tested, evaluator, spending.now), spending, opening)
    if _is_over(job, draft_id, spending.begin):
        destroy_drafts((draft_id,), opening.keys, staging)


def _is_over(job: Job, draft_id: str, begin: Begin) -> bool:
    """Whether nobody validates the draft any more, and it was not elected."""
    with begin() as uow:
        ended = uow.jobs.get(job.id).state is JobState.ENDED
        return ended and draft_id not in uow.versions.draft_ids((job.made_in,))


class _Validating(OnTestSet):
    ran_step, kept_step = "validated", "verdict-kept"
    denied = "validation-denied"
    locks_stream = True  # the trainings of a PTK that is given up release what they reserved

    def __init__(
        self,
        job: Job,
        candidate: Candidate | None,
        tested: Tested,
        evaluator: Evaluator,
        now: Callable[[], datetime],
    ) -> None:
        super().__init__(job, tested, evaluator)
        self._candidate, self._now = candidate, now
        self._content: Mapping[str, Any] = {} if candidate is None else candidate.content

    def price(self, uow: UnitOfWork, claimed: ClaimedRun) -> Price | Ended:
        """Reserve as any run on a test set, if the draft can be read and its PTK asks for what it asked then."""
        if self._candidate is None:
            return Ended(Outcome.FAILED, UNREADABLE)
        if asked_of(claimed.spec) != self._candidate.asked:
            return Ended(Outcome.WITHDRAWN, CHANGED)
        spec, accept = claimed.spec, _accept_of(claimed.spec)
        if not earlier_looks(uow, spec).leaves_room(accept.confidence):
            give_up(uow, spec, GivenUp.CONFIDENCE, self.job.made_in.index, self._now(), self.job.look)
            return Ended(Outcome.REFUSED, NO_CONFIDENCE_LEFT)
        return super().price(uow, claimed)

    def asked(self, spec: PtkSpec) -> AskedSums | None:
        return None if spec.accept is None else spec.accept.sums

    def was_kept(self, uow: CatalogView, result: RiskMass) -> bool:
        kept = uow.validations.of(str(self.job.ptk_id))
        return any(one.job_id == self.job.id and one.mass == _of_state(result) for one in kept)

    def keep(
        self, uow: UnitOfWork, spent: Spent, spec: PtkSpec | None, result: RiskMass, at: datetime
    ) -> Outcome:
        """Keep the verdict, and make the state the PTK's next version if it is accepted."""
        if spec is None:
            return Outcome.WITHDRAWN
        job, epsilon, made_in = self.job, self.paid(spent)[0].epsilon, self.job.made_in.index
        verdict = self._verdict(uow, spent, result)
        mass, newest = _of_state(result), spent.windows[-1]
        about = Validation(spec.ptk_id, job.id, verdict["look"], newest, epsilon, mass, verdict, at)
        if verdict["decision"] == ACCEPT:
            self._publish(uow, spec, about)
            return Outcome.PUBLISHED
        uow.validations.add(about)
        if verdict["decision"] == REJECT and self._is_about(spec):
            give_up(uow, spec, GivenUp.REJECT, made_in, at, job.look)
            return Outcome.DONE
        uow.notify_owner(Notice.of_run(job, f"validation-{verdict['decision']}", at))
        if spec.has_timed_out(made_in + 1, uow.streams.get(spec.stream).policy):
            give_up(uow, spec, GivenUp.TIMEOUT, made_in, at, job.look)
        return Outcome.DONE

    def _verdict(self, uow: UnitOfWork, spent: Spent, result: RiskMass) -> dict[str, Any]:
        """Return the record of what follows from the sums: for the PTK as it was when they were paid for."""
        from ptklib.profiling.estimates import LossEstimate  # loads every family
        from ptklib.state import ReleasedState
        from ptklib.validation import AcceptTerms, GroupSums, joined

        spec, accept = spent.spec, _accept_of(spent.spec)
        terms = AcceptTerms.of(accept.terms)
        earlier = earlier_looks(uow, spec)
        look = (earlier.number + 1, earlier.failure)
        paid, paid_for_class = self.paid(spent)
        beside: dict[str, Any] = {}
        if spec.tested_on != spec.stream:
            beside = {"stream": spent.stream.name, "windows": list(spent.windows)}
        elif len(spent.windows) > 1:
            beside = {"windows": list(spent.windows)}
        if isinstance(result, GroupedMass):
            rows_per_unit = spent.stream.policy.max_rows_per_unit
            sums_of = GroupSums(self._tested.estimator, paid.spendable_epsilon, rows_per_unit)
            groups = [LossEstimate(sums_of.group_epsilon, one.lost, one.kept) for one in result.groups]
            released = sums_of.released(ReleasedState.from_files(self._tested.state))
            verdict = terms.error_validator(spec.target, sums_of).of_means(released, groups, *look)
            beside["groups"] = [[one.lost, one.kept] for one in result.groups]
        else:
            sums = LossEstimate(paid.spendable_epsilon, result.lost, result.kept)
            verdict = terms.validator(spec.target).verdict(sums, *look)
        if paid_for_class is not None and isinstance(result, JudgedMass):
            least = result.minimum
            sums = LossEstimate(paid_for_class.spendable_epsilon, least.lost, least.kept)
            of_class = terms.minimum_validator(spec.target).verdict(sums, *look)
            verdict = joined(verdict, of_class)
            beside["minimum"] = {"epsilon": paid_for_class.epsilon, **asdict(least), "bound": of_class.bound}
        return {**verdict.to_json(), **beside, **self._tested.label(spec.ptk_id)}

    def _is_about(self, spec: PtkSpec) -> bool:
        """Whether a verdict is about what the PTK is by now: its class, its rows and its target."""
        asked = None if self._candidate is None else self._candidate.asked
        return asked_of(spec) == asked and spec.estimator == self._tested.estimator

    def _publish(self, uow: UnitOfWork, spec: PtkSpec, about: Validation) -> None:
        """Elect the state with its verdict; a PTK that waited waits for the next one from its window on."""
        job, at = self.job, about.at
        manifest = partial(accepted_manifest, self._content, at, about.verdict)
        number = elect(uow, job, str(job.draft_id), manifest, at).number
        uow.validations.add(replace(about, number=number))
        if about.verdict["metric"] == "loss":  # the verdict has those of others, in the unit of their metric
            windows = tuple(about.verdict.get("windows", (about.window_index,)))
            uow.evaluations.add(
                Evaluation(spec.ptk_id, number, job.id, windows, about.epsilon, about.mass, at)
            )
        if spec.waiting is not None:
            uow.ptks.wait(spec.ptk_id, spec.waiting.goes_on_after(job.made_in.index))


def _accept_of(spec: PtkSpec) -> Accept:
    """The test that a PTK asks for, if its states are validated."""
    assert spec.accept is not None  # it asks for what it asked when its candidate was trained
    return spec.accept


def _of_state(result: RiskMass) -> RiskMass:
    """Return the sums of the state's own losses."""
    return result.of_state if isinstance(result, JudgedMass | GroupedMass) else result
