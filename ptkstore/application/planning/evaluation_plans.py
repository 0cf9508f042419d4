"""Estimates of PTKs' losses: what one costs, whether a test block can pay for those of all PTKs, and who gets one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.application.ledger.charging import Price, price_of
from ptkstore.domain.accounting.accountants import caps_of, fit_together
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.evaluations import AskedSums, evaluation_sums
from ptkstore.domain.jobs import JobKind, paid_run
from ptkstore.domain.ptks.accept import Accept, asked_sums
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import groups_where
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.state_windows import opened_windows
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import InvalidRequest, PtkRejected
from ptkstore.ports.catalog import UnitOfWork

TestPrice = Callable[[PtkSpec, Policy], Price | None]
"""The price of the test of a PTK's versions."""


def check_evaluation(
    ptk_id: str, estimator: Mapping[str, Any], config: Mapping[str, Any], target: float
) -> None:
    """Raise `InvalidRequest` for an estimate or a verdict that the family cannot give, or in other words."""
    asked = asked_sums(config)
    if asked is None:
        return
    if (accept := Accept.of(config)) is not None:
        if evaluation_sums(config) is not None:
            raise InvalidRequest(
                f"PTK {ptk_id}: accept pays for an estimate of each version; leave evaluate out"
            )
        _check_terms(ptk_id, estimator, accept, config, target)
    try:
        _declared(estimator, asked.epsilon, asked.metric)
    except PtklibError as error:
        raise InvalidRequest(f"PTK {ptk_id} cannot be evaluated: {error}") from error


def _check_terms(
    ptk_id: str, estimator: Mapping[str, Any], accept: Accept, config: Mapping[str, Any], target: float
) -> None:
    from ptklib.validation import AcceptTerms, Metric  # loads every family

    try:
        terms = AcceptTerms.of(accept.terms)
        terms.check_family(estimator_from_spec(estimator))
        terms.check_target(target, estimator_from_spec(estimator))
        planned = sorted({"epsilons", "profile"} & set(config))
        if terms.metric is not Metric.LOSS and planned:
            raise InvalidRequest(
                f"accept of PTK {ptk_id}: its target is an {terms.metric}, and rows are planned for a loss; leave "
                f"{' and '.join(planned)} out"
            )
    except PtklibError as error:
        raise InvalidRequest(f"accept of PTK {ptk_id}: {error}") from error


def price_of_estimate(estimator: Mapping[str, Any], asked: AskedSums, policy: Policy) -> Price:
    """Price sums of a test set under the stream's accountant; the event is that of what is spent.

    The least losses of the class are of the same rows as those of the state, so their epsilons add.
    """
    loss = Loss.charge(asked.epsilon)
    declared = _declared(estimator, loss.spendable_epsilon, asked.metric, policy.max_rows_per_unit)
    if asked.reject_epsilon is not None:
        from ptklib.validation import MinimumSums, validation_loss

        least = Loss.charge(asked.reject_epsilon)
        minimum = MinimumSums(estimator, least.spendable_epsilon).declared_loss()
        loss, declared = loss + least, validation_loss(declared, minimum, same_rows=True)
    return price_of(declared.event.to_json(), policy.accountant, loss)


def price_of_test(spec: PtkSpec, policy: Policy) -> Price | None:
    """Price the verdict or the estimate that follows each training of a PTK; None for one that asks for neither."""
    asked = asked_sums(spec.config)
    return None if asked is None else price_of_estimate(spec.estimator, asked, policy)


def check_evaluations(specs: Sequence[PtkSpec], policy: Policy, price: TestPrice = price_of_test) -> None:
    """Raise `PtkRejected` unless one test block has room for all estimates; the last of `specs` is the new one.

    A block of a test part is charged by evaluations and validations alone. They run after the trainings, so what does
    not fit is refused here and not when the versions are out.

    Parameters
    ----------
    price : callable
        `price_of_test`, or what a caller who checks again and again remembers of it.
    """
    *_, new = specs
    asked = price(new, policy)
    if asked is None:
        return
    line = policy.line_of(new.ptk_id)
    lines = policy.lines
    if line not in lines:
        raise PtkRejected(f"{new.ptk_id}: the whole budget of its line is reserved for other PTKs")
    caps = caps_of(policy.accountant, lines[line])
    for group in groups_where(policy, new.config.get("where")):
        charges = [
            tested.charge
            for spec in specs
            if (tested := price(spec, policy)) is not None
            and policy.line_of(spec.ptk_id) == line
            and group in groups_where(policy, spec.config.get("where"))
        ]
        if not fit_together(caps, charges):
            what = "an estimate" if new.accept is None else "a verdict"
            raise PtkRejected(
                f"{new.ptk_id} asks for {what} of epsilon {asked.loss.epsilon:g}; beside "
                f"{len(charges) - 1} others it does not fit a test block of {policy.capacity}"
            )


def most_estimates(spec: PtkSpec, policy: Policy) -> int:
    """Return how many estimates of a PTK one test block can pay for at most."""
    price = price_of_test(spec, policy)
    assert price is not None
    caps = caps_of(policy.accountant, policy.lines[policy.line_of(spec.ptk_id)])
    return max(cap // amount for cap, amount in zip(caps.amounts, price.charge.amounts, strict=True))


def queue_evaluation(uow: UnitOfWork, spec: PtkSpec, version: Version, stream: str, now: datetime) -> None:
    """Have a version that is just elected evaluated once it is in the lake, if its PTK pays for that.

    A PTK that changed while it was trained may ask for what its last version has not got: that one goes without.

    Parameters
    ----------
    spec : PtkSpec
        The PTK as it is by now.
    """
    asked = evaluation_sums(spec.config)
    if asked is None:
        return
    try:
        _declared(version.content["config"], asked.epsilon)
    except PtklibError:
        return
    window, oldest = WindowId(stream, version.window_index), opened_windows(version.content)[0]
    evaluation = paid_run(JobKind.EVALUATE, spec.ptk_id, window, now, oldest=oldest, version=version.number)
    uow.jobs.add(evaluation)


def _declared(
    estimator: Mapping[str, Any], epsilon: float, metric: str = "loss", rows_per_unit: int = 1
) -> Any:
    from ptklib.profiling.estimation import LossEstimator  # loads every family
    from ptklib.validation import GroupSums

    if metric == "error":
        return GroupSums(estimator, epsilon, rows_per_unit).declared_loss()
    return LossEstimator(estimator, epsilon).declared_loss()
