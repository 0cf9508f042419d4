"""Validations: the paid test that a trained state has to pass to become a version (Sage SOSP'19, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ptkstore.domain.evaluations import RiskMass


@dataclass(frozen=True, slots=True)
class Validation:
    """What was released of one validation of a PTK, by the job `job_id`.

    `look` counts the validations since the last that was accepted, from 1 on. `verdict` is the record that the library
    makes of the two noisy sums in `mass`; `number` is the version that was elected, 0 if none was.
    """

    ptk_id: str
    job_id: str
    look: int
    window_index: int
    epsilon: float
    mass: RiskMass
    verdict: Mapping[str, Any]
    at: datetime
    number: int = 0
