"""What the policy of a stream says about its scheduler."""

from __future__ import annotations

from enum import StrEnum


class Scheduler(StrEnum):
    """Who is trained when: `allocate` plans each window alone, `adaptive` lets PTKs wait for windows."""

    ALLOCATE = "allocate"
    ADAPTIVE = "adaptive"


class Mode(StrEnum):
    """How much of its allowance a PTK takes.

    `conserve` begins with the least and doubles. `aggressive` takes as much as its allowance covers. `guided` begins
    with a pair of the PTK's own menu, and then doubles; a PTK without a menu begins as under `conserve`.
    """

    CONSERVE = "conserve"
    AGGRESSIVE = "aggressive"
    GUIDED = "guided"
