"""Names of what is in the devices' Redis."""

from __future__ import annotations

PREFIX = "ptkd:"

PTKS_KEY = "ptkd:ptks"
"""A set of the PTKs of which an epoch was begun, and not forgotten."""


def epoch_key(ptk_id: str) -> str:
    """Return where the epoch of a PTK is: its id, a space and what it began for."""
    return f"{PREFIX}{ptk_id}:epoch"


def instances_key(ptk_id: str, epoch: str) -> str:
    """Return where the instances of an epoch are: a hash from each place to packed little-endian int32."""
    return f"{PREFIX}{ptk_id}:{epoch}:instances"


def counts_key(ptk_id: str, epoch: str) -> str:
    """Return where reports of an epoch are counted: a hash from what came of them to how many they are.

    And from `before` to how many reports the instances count for that it began with, from `after-loss` to 1 if others
    had been lost.
    """
    return f"{PREFIX}{ptk_id}:{epoch}:counts"


def marks_key(ptk_id: str, epoch: str) -> str:
    """Return where it is said what was counted when windows were read: a hash from their numbers to JSON."""
    return f"{PREFIX}{ptk_id}:{epoch}:marks"


def keys_of(ptk_id: str) -> str:
    """Return the pattern of all keys of a PTK."""
    return f"{PREFIX}{ptk_id}:*"


def ticket_key(mark: bytes) -> bytes:
    """Return where it is said of a spent ticket what was done with it."""
    return b"ptkd:ticket:" + mark
