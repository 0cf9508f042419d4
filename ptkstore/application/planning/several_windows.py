"""The PTKs that may read several windows in one training, and their streams (docs/proofs/several-windows.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptkstore.domain.ptks.bundles import bundle_of
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.errors import InvalidRequest


def check_windows(
    ptk_id: str, windows: tuple[int, int], estimator: Mapping[str, Any], trainer: Any, policy: Policy
) -> None:
    """Raise `InvalidRequest` where nobody bounds what a privacy unit adds to several windows, or does not keep them.

    Parameters
    ----------
    windows : tuple (least, most)
        How many windows one training may read.
    estimator, trainer
        The estimator as data, and as an object.
    """
    _, most = windows
    if most == 1:
        return
    asks = f"PTK {ptk_id} asks for up to {most} windows in one training"
    if policy.privacy_unit is PrivacyUnit.USER:
        raise InvalidRequest(
            f"{asks}, but this stream protects users for life: {most} windows hold up to {most} times as many rows of "
            "a user, and nothing bounds them together. Take windows=(1, 1), or a stream with the privacy unit "
            "'user-in-window'"
        )
    if policy.scheduler is Scheduler.ALLOCATE:
        raise InvalidRequest(
            f"{asks}, but the scheduler 'allocate' of this stream trains on one window at a time. Take windows=(1, 1), "
            "or a stream with another scheduler"
        )
    per_user = trainer.privacy_unit() != "record"
    if per_user and bundle_of(estimator) is not None:
        raise InvalidRequest(
            f"{asks}, but team code with a `unit` bounds the rows of a user over all windows together. Take "
            "windows=(1, 1)"
        )
    if per_user and getattr(trainer, "unit", None) is None:
        raise InvalidRequest(
            f"{asks}, but its estimator bounds the rows of a user over all windows together. Take windows=(1, 1)"
        )
    if most > policy.retention_windows:
        raise InvalidRequest(
            f"{asks}, but rows of {policy.retention_windows} windows are kept at the same time. Ask for at most so "
            "many, or take a stream with a longer retention"
        )
