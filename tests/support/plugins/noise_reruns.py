"""Which tests may fail once and still pass: those that judge noise, and no others.

A race that fails one run in four would pass 94 % of the runs if its test were rerun.
"""

from __future__ import annotations

from pathlib import PurePosixPath

NOISY = ("statistical",)
NOISY_IF_FRESH = ("ptklib",)
RERUNS = 2
"""What these tests assert holds but for a small chance. A defect fails three times; bad luck of one in a thousand
does not. Repeated noise depends on the machine's arithmetic, so it is rerun as well."""


def reruns(path: PurePosixPath, *, fresh_noise: bool) -> int:
    """How often a test of this file, relative to `tests`, is rerun before it fails."""
    places = (*NOISY, *NOISY_IF_FRESH) if fresh_noise else NOISY
    return RERUNS if any(path.is_relative_to(place) for place in places) else 0
