"""PTKs as their teams want them to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptkstore.domain.ptks.ptks import PTK_ARGUMENTS, windows_between
from ptkstore.domain.streams.policies import Policy


@dataclass(frozen=True, slots=True)
class WantedPtk:
    """A PTK as its team wants it to be, whether it is registered by now or not.

    `arguments` are the fields that are declared of `PtkSpec`, by the names that users know them by; a missing one has
    its default.
    """

    name: str
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        if unknown := set(self.arguments) - set(PTK_ARGUMENTS):
            raise TypeError(f"a PTK has no {sorted(unknown)[0]}")
        required = {word for word, one in PTK_ARGUMENTS.items() if one.default is ...}
        if missing := required - set(self.arguments):
            raise TypeError(f"a PTK needs its {sorted(missing)[0]}")

    @property
    def estimator(self) -> Mapping[str, Any]:
        """The trainer as data."""
        estimator: Mapping[str, Any] = self.arguments["estimator"]
        return estimator

    def said(self, policy: Policy) -> dict[str, Any]:
        """Return the declared fields as a PTK on a stream of this policy has them."""
        fields = {one.name: self.arguments.get(word, one.default) for word, one in PTK_ARGUMENTS.items()}
        return {**fields, "every": windows_between(policy, fields["every"])}


def changed(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are to change, by name; an argument of None changes nothing.

    Raises
    ------
    TypeError
        An argument is none that can be changed.
    """
    name_of = {word: one.name for word, one in PTK_ARGUMENTS.items() if not one.fixed}
    if unknown := set(change) - set(name_of):
        raise TypeError(f"a registered PTK has no {sorted(unknown)[0]} to change")
    return {name_of[argument]: value for argument, value in change.items() if value is not None}
