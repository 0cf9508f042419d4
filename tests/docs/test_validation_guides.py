"""The guides of schedulers and of validated versions begin with commands that lead to an accepted version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.guides import begun, run

pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.mark.parametrize("guide", ["scheduling", "validated-versions"])
def test_its_commands_lead_to_an_accepted_version(repository: Path, tmp_path: Path, guide: str) -> None:
    """Whether Monday's hour is refused is up to noise. Tuesday's state meets the target by far."""
    said = run(begun(repository / "docs" / "guide" / f"{guide}.md"), tmp_path, tmp_path)
    assert "was accepted, and the next is waited for" in said
    if guide == "scheduling":
        assert "allowance" in said.partition("closed")[0]  # before a window has closed
        assert "nobody waits" in said
