"""The version of a central PTK that one that devices train begins with: `start_from` of its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ptkstore.domain.names import split_ptk_id
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class StartFrom:
    """A version of a PTK."""

    ptk_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.ptk_id} v{self.number}"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self | None:
        """Read the config of a PTK; None if it begins with nothing.

        Raises
        ------
        InvalidRequest
            `start_from` names no PTK, or no version.
        """
        given = config.get("start_from")
        if given is None:
            return None
        if not isinstance(given, Mapping) or set(given) != {"ptk", "version"}:
            raise InvalidRequest('start_from of a PTK says {"ptk": "team.name", "version": 1}')
        number = given["version"]
        if type(number) is not int or not 0 < number < 2**53:
            raise InvalidRequest("version of start_from is a whole number from 1 on")
        split_ptk_id(given["ptk"])
        return cls(given["ptk"], number)
