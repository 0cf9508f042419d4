"""The promise of a policy, in the words of reports: the relation, the composition theorem, what a user may lose."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ptkstore.domain.accounting import local
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.local import composed
from ptkstore.domain.accounting.losses import ATTO, NANO, NO_LOSS, Loss
from ptkstore.domain.streams.policies import Policy, PrivacyUnit

PROOF = "docs/proofs/filters.md"

COMPOSITION = {
    Accountant.BASIC: (
        "basic composition, each loss chosen in the light of earlier outputs: epsilons add up and deltas add up (Sage "
        "SOSP'19, Theorem 4.3)"
    ),
    Accountant.RENYI: (
        "fully adaptive Rényi filter at fixed orders (Feldman, Zrnic 2021) with a union over the orders, converted by "
        "Canonne, Kamath, Steinke 2020, Proposition 12; pure losses add up"
    ),
    Accountant.ZCDP: (
        "fully adaptive zCDP filter (Bun, Steinke 2016; Feldman, Zrnic 2021), converted by Canonne, Kamath, Steinke "
        "2020, Proposition 12; pure losses add up"
    ),
}

TIGHT = (
    "privacy loss distributions of this list of releases; would hold for a list that was fixed beforehand, so no "
    "admission rests on it"
)

CONTEXTS = (
    "each context has the whole capacity. That is a guarantee only while nobody learns from two contexts, and no "
    "request of one context reacts to an output of another, not even by way of data or decisions that depend on it "
    "(arXiv 2506.05290). Where either fails, the losses of all contexts add up"
)
"""What separate budgets per context rest on."""

ROWS_EXAMPLE = 10


@dataclass(frozen=True, slots=True)
class Protected:
    """The largest loss of a person; `rule` says how it follows from the loss of one privacy unit."""

    who: str
    loss: Loss
    rule: str


def neighbours(policy: Policy) -> str:
    """Return the neighbouring relation, exactly."""
    kept = f"at most {policy.max_rows_per_unit} of a window are kept, chosen at random when it closes"
    match policy.privacy_unit:
        case PrivacyUnit.RECORD:
            return "two inputs are neighbours if one has one accepted record more than the other"
        case PrivacyUnit.USER_IN_WINDOW:
            return f"two inputs are neighbours if one has records of one user in one window more; {kept}"
        case PrivacyUnit.USER:
            return f"two inputs are neighbours if one has records of one user more, in any windows; {kept}"
        case PrivacyUnit.DEVICE:
            return "any two tables of a device are neighbours, one without rows included"


def all_lines(policy: Policy) -> Loss:
    """Return what a block loses at most to somebody who learns from all contexts."""
    return sum(policy.lines.values(), NO_LOSS)


def contexts_sentence(
    names: Iterable[str], most: str, spent: str, reason: str | None, *, rests_on: str = CONTEXTS
) -> str:
    """Say what separate budgets rest on, with the loss of all contexts: at most, and on the worst block so far.

    Parameters
    ----------
    most, spent : str
        Losses as text.
    """
    return (
        f"Contexts {', '.join(names)}: {rests_on}, to {most} at most and {spent} until now on the worst block. The "
        f"policy's reason: {reason}"
    )


def protections(policy: Policy, loss: Loss, windows: int) -> tuple[Protected, ...]:
    """Say what `loss` of a block means for a record, and for a user in one and in all windows (differences.md S11).

    Of a stream whose rows stay on devices: what `loss` of a report means for a device.
    """
    record = Protected("one record", loss, "the loss of one block")
    in_one, in_all = "one user in one window", f"one user in {windows} window{'' if windows == 1 else 's'}"
    match policy.privacy_unit:
        case PrivacyUnit.RECORD:
            rule = "R epsilon and delta (exp(R epsilon) - 1) / (exp(epsilon) - 1); example: a user with 10 records"
            several = of_a_group(loss, ROWS_EXAMPLE)
            return record, Protected(in_one, several, rule), Protected(in_all, several, rule)
        case PrivacyUnit.USER_IN_WINDOW:
            many, rule = _of_windows(policy, loss, max(1, windows))
            return (
                record,
                Protected(in_one, loss, "the loss of one block"),
                Protected(in_all, many, rule),
            )
        case PrivacyUnit.USER:
            whole = "the loss of one block, for the stream's life"
            return record, Protected(in_one, loss, whole), Protected(in_all, loss, whole)
        case PrivacyUnit.DEVICE:
            in_window, ever = policy.reports_per_window or 0, policy.reports_in_all or 0
            return (
                Protected("one report of a device", loss, "the noise that the device adds"),
                Protected("one device in one window", composed(loss, in_window), local.RULE),
                Protected("one device in all windows", composed(loss, ever), local.RULE),
            )


def _of_windows(policy: Policy, loss: Loss, windows: int) -> tuple[Loss, str]:
    """Return what a user with rows in so many windows loses, and the rule.

    If each training reads one window, the losses of the windows' blocks add up. A training that reads several windows
    draws its noise once for all rows of the user, so that they are a group (docs/proofs/several-windows.md).
    """
    if policy.scheduler.lets_wait:
        rule = "W epsilon and delta (exp(W epsilon) - 1) / (exp(epsilon) - 1) for a user in W windows"
        return of_a_group(loss, windows), rule
    delta = min(ATTO, windows * loss.delta_atto)
    return Loss(windows * loss.epsilon_nano, delta), "the loss of one block for each window"


def of_a_group(loss: Loss, size: int) -> Loss:
    """Return what `size` privacy units lose together: group privacy, rounded up."""
    epsilon = loss.epsilon_nano / NANO
    try:
        times = math.fsum(math.exp(i * epsilon) for i in range(size))
        delta = min(ATTO, math.ceil(loss.delta_atto * times * (1 + 1e-12)))
    except OverflowError:
        delta = ATTO if loss.delta_atto else 0
    return Loss(size * loss.epsilon_nano, delta)
