"""The losses of devices for a PTK that they train, read off its estimator: public before any device is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.domain.accounting.local import LocalLoss
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from ptklib.draw_discard import Specification


def specification_of(estimator: Mapping[str, Any]) -> Specification:
    """Return the facts of a PTK for devices; `InvalidRequest` if a parameter cannot be used."""
    try:
        specification: Specification = estimator_from_spec(estimator).specification
    except PtklibError as error:
        raise InvalidRequest(str(error)) from error
    return specification


def local_loss_of(estimator: Mapping[str, Any], policy: Policy) -> LocalLoss:
    """Return what the reports of a device lose that trains this on a stream of the policy."""
    from ptklib.draw_discard import report_loss

    specification = specification_of(estimator)
    loss = report_loss(specification)
    return LocalLoss(
        report=Loss.of_report(loss.whole.epsilon, loss.whole.delta),
        limit=policy.report_limit,
        one_weight=Loss.of_report(loss.one_weight.epsilon, loss.one_weight.delta),
        reports_per_window=policy.reports_per_window or 0,
        reports_in_all=policy.reports_in_all or 0,
        event=loss.whole.event.to_json(),
        clip=specification.clip,
        max_norm=specification.max_norm,
        noise=specification.noise,
        specification=specification.digest,
    )
