"""What a team is warned of before devices train its PTK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ptklib import AdaSSPRegressor, DrawDiscardModel
from ptkstore.domain.ptks.device_warnings import device_warnings


def model(**params: Any) -> Mapping[str, Any]:
    return DrawDiscardModel({"length": (0.0, 10.0)}, "spam", epsilon=3.0, **params).to_spec()


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (model(), []),
        (model(k=2), []),
        (model(k=1), ["each version is the last report"]),
        (model(average="predictions"), ["has all 20 instances"]),
        (model(k=3, average="predictions"), ["has all 3 instances"]),
        (model(k=1, average="predictions"), ["each version is the last report"]),
        (
            AdaSSPRegressor(
                label="speed", bounds={"hour": (0, 24)}, label_bounds=(0, 60), epsilon=1, delta=1e-6
            ).to_spec(),
            [],
        ),
    ],
)
def test_single_reports_in_versions_are_said(estimator: Mapping[str, Any], words: list[str]) -> None:
    found = device_warnings(estimator)
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))
