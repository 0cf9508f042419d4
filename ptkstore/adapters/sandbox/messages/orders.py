"""Messages between parent and child: one JSON document there, one JSON line back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from ptkstore.adapters.sandbox.messages.codec import from_json, to_json
from ptkstore.adapters.sandbox.messages.codes import (
    BAD_OUTPUT,
    MEMORY_LIMIT,
    NO_SANDBOX,
    ROWS_CORRUPT,
    ROWS_GONE,
    TEAM_CODE_FAILED,
)
from ptkstore.adapters.sandbox.processes.process import USUAL_LIMITS, Limits
from ptkstore.domain.evaluations import GroupedMass, JudgedMass, RiskMass
from ptkstore.domain.ptks.profiles import Point
from ptkstore.domain.versions.versions import Draft
from ptkstore.ports.row_processes import STAGING_FAILED, Compared, NoisyLosses, Request, RunFailed

Answer: TypeAlias = (
    Draft
    | RunFailed
    | RiskMass
    | JudgedMass
    | GroupedMass
    | Compared
    | NoisyLosses
    | tuple[Point, ...]
    | bool
    | None
)
"""None says that the files are written."""
SAID_BY_CHILD: Final = frozenset(
    {MEMORY_LIMIT, ROWS_GONE, ROWS_CORRUPT, STAGING_FAILED, TEAM_CODE_FAILED, NO_SANDBOX}
)
SAID_OF_TEAM_CODE: Final = frozenset({ROWS_GONE, ROWS_CORRUPT, TEAM_CODE_FAILED, NO_SANDBOX})
"""Of a run of team code; none of them depends on what the code did, or on how many rows there were."""

_Expected = TypeVar("_Expected")


@dataclass(frozen=True, slots=True)
class Order:
    """A request, the places of its rows and its draft, the environment for them, and the limits of team code."""

    request: Request
    raw_url: str
    staging_url: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Limits = USUAL_LIMITS
    bubblewrap: str = "bwrap"


def encode_order(order: Order) -> bytes:
    """Write the document for the child's standard input; it contains keys, so it goes nowhere else."""
    return to_json(order)


def decode_order(document: bytes) -> Order:
    """Read what `encode_order` wrote."""
    order: Order = from_json(Order, document)
    return order


def encode_answer(answer: Answer) -> bytes:
    """Write the child's one line; the parent reads the facts of a draft off its state, and believes no other."""
    return to_json(replace(answer, facts=None) if isinstance(answer, Draft) else answer) + b"\n"


def decode_answer(expected: type[_Expected], line: bytes) -> _Expected | RunFailed:
    """Read the child's answer, true or not; anything but one line of the expected type is `bad-output`."""
    member: Any = expected
    try:
        answer: _Expected | RunFailed = from_json(member | RunFailed, line)
    except ValueError:
        return RunFailed(BAD_OUTPUT)
    unknown = isinstance(answer, RunFailed) and answer.code not in SAID_BY_CHILD
    unknown = unknown or (isinstance(answer, Draft) and answer.facts is not None)
    return RunFailed(BAD_OUTPUT) if unknown or not line.endswith(b"\n") else answer
