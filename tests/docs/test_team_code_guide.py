"""What the guide on team code begins with leads to a published version, and a new repository's README too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.guides import begun, run

pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.mark.usefixtures("sandbox")
def test_the_guide_begins_with_commands_that_lead_to_a_version_of_team_code(
    repository: Path, tmp_path: Path
) -> None:
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    said = run(begun(repository / "docs" / "guide" / "team-code.md"), folder, home)
    (trips,) = re.findall(r"│ trips +│ +(\d+) │", said)
    assert 450 < int(trips) < 950  # 720 rows in truth; noise of scale 10
    assert list(home.iterdir()) == []


def test_the_readme_of_a_new_repository_says_how_to_reach_a_version(tmp_path: Path) -> None:
    run("ptk init . --team ads --stream clicks", tmp_path, tmp_path)
    rows = """
import numpy as np, pandas as pd
at = pd.date_range("2026-01-05", periods=2_000, freq="40s")
pd.DataFrame({"at": at, "hour": at.hour.astype("int64"), "speed": 12.0}).to_parquet("trips.parquet")
"""
    (tmp_path / "rows.py").write_text(rows)
    text = (tmp_path / "README.md").read_text()
    shown = re.findall(r"^    (ptk .*?[^\\])$", text[text.index("To try it out") :], re.MULTILINE | re.DOTALL)
    said = run("\n".join(["python rows.py", *shown]), tmp_path, tmp_path)
    assert "speed_mean" in said
