"""Which tests are looked at again before they fail: a race that fails half the time would pass otherwise."""

from __future__ import annotations

from pathlib import PurePosixPath

# What these assert holds but for a small chance, and repeated noise depends on the machine's arithmetic. A defect
# fails three times; bad luck of one in a thousand does not.
NOISY = ("statistical",)
NOISY_IF_FRESH = ("ptklib",)
LOOKS_AGAIN_AT_NOISE = 2

# No machine is too slow for these: what fails once in a while has a defect. Single tests are marked `exact`.
EXACT = (
    "contracts",
    "faults/test_ledger_under_fire.py",
    "faults/test_two_schedules.py",
    "ptkstore/domain",
    "ptkstore/adapters/objects/test_writers_race_and_die.py",
    "ptkstore/adapters/sql/test_claims.py",
)
# All others start processes, servers and browsers, on machines that are short of everything at times.
LOOKS_AGAIN = 1


def looks_again(path: PurePosixPath, *, fresh_noise: bool) -> int:
    """How often a test of this file, relative to `tests`, may fail and still pass."""
    if _in(path, NOISY) or (fresh_noise and _in(path, NOISY_IF_FRESH)):
        return LOOKS_AGAIN_AT_NOISE
    return 0 if _in(path, (*NOISY_IF_FRESH, *EXACT)) else LOOKS_AGAIN


def _in(path: PurePosixPath, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(place) for place in places)
