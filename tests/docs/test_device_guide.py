"""What the guide to device streams shows is as it says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.guides import begun, run


def test_the_stream_and_the_ptk_of_the_guide_are_made_and_shown(repository: Path, tmp_path: Path) -> None:
    commands = begun(repository / "docs/guide/device-streams.md")
    shown = run(f"{commands}\nptk stream show phones\nptk list", tmp_path, tmp_path)
    assert "safety.phishy" in shown
    assert "its rows stay on devices" in shown
    assert "report_epsilon: 3.47" in shown
    assert "reports_in_all: 8" in shown
    assert "epsilon: 0" not in shown


def test_the_guide_tells_every_field_of_a_local_guarantee(repository: Path) -> None:
    from ptkstore.domain.versions.manifests import local_content_of

    guide = (repository / "docs/guide/device-streams.md").read_text()
    source = Path(local_content_of.__code__.co_filename).read_text()
    body = source[source.index("def local_content_of") : source.index("def _of_draft")]
    for name in re.findall(r'^ {12}"(\w+)":', body, re.MULTILINE):
        if name not in ("accountant", "assurance"):
            assert f"`{name}`" in guide or f"guarantee.{name}" in guide, name
