"""Says in everyday words what a loss means, and what no figure of a report covers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

_LARGEST: Final = 20.0
"""An epsilon of which the factor would be more than 400 million."""

_ALWAYS: Final = (
    "Facts about many people: a mean may say what is true of most of them. Rows of a person that are kept elsewhere.",
    "People who hold the key store, or who administer the service: they are trusted.",
    "Other streams. Each has a report and a budget of its own. A person with rows in several streams loses from each, "
    "and the figures add up.",
)


def in_words(now: Mapping[str, Any], most: Mapping[str, Any]) -> str:
    """Say what the loss of one privacy unit means, until now and once all budget is spent.

    Parameters
    ----------
    now, most : Mapping
        `who` loses which `epsilon` and `delta`.
    """
    return (
        f"In words: compare the data with and without the rows of {now['who']}. Whatever was published until now is at "
        f"most {_times(now)} as likely with them as without them, and the other way round. Once all budget is spent, "
        f"it is at most {_times(most)}. δ is added to the chance."
    )


def limits(policy: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is not covered by the figures of a report under this policy."""
    about: list[str] = []
    if policy["privacy_unit"] == "record":
        about.append(
            "Many rows of one person: a figure is for one row. A person with R rows loses R times epsilon, and delta "
            "grows faster than R."
        )
    if policy["minimum_assurance"] != "library":
        about.append(
            "Losses that a team claims for its own code. They are counted as claimed, and nobody has proven them."
        )
    return (*_ALWAYS, *about)


def shown_loss(loss: Mapping[str, str]) -> str:
    """Write a loss as people read it; rounded up, so that no figure is better than it is."""
    epsilon, delta = Decimal(loss["epsilon"]), Decimal(loss["delta"])
    shown = f"ε {_rounded(epsilon)}"
    return shown if not delta else f"{shown}, δ {_rounded(delta)}"


def _rounded(amount: Decimal) -> str:
    if not amount:
        return "0"
    step = Decimal(1).scaleb(amount.adjusted() - 5)
    shown = (amount / step).to_integral_value("ROUND_CEILING") * step
    return f"{shown.normalize():f}" if shown >= Decimal("0.0001") else f"{shown.normalize():e}"


def _times(loss: Mapping[str, Any]) -> str:
    """Write the factor of a loss, rounded up."""
    epsilon, delta = float(Decimal(loss["epsilon"])), Decimal(loss["delta"])
    if delta >= 1 or epsilon > _LARGEST:
        return "any number of times"
    factor = math.exp(epsilon)
    step = 10.0 ** (math.floor(math.log10(factor)) - 2)
    return f"{math.ceil(factor / step) * step:,.{max(0, -round(math.log10(step)))}f} times"
