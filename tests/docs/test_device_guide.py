"""What the guide to device streams shows is as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.guides import begun, run
from tests.support.waiting import free_port


def test_the_stream_and_the_ptk_of_the_guide_are_made_and_shown(repository: Path, tmp_path: Path) -> None:
    commands = begun(repository / "docs/guide/device-streams.md")
    shown = run(f"{commands}\nptk stream show phones\nptk list", tmp_path, tmp_path)
    assert "safety.phishy" in shown
    assert "its rows stay on devices" in shown
    assert "report_epsilon: 3.47" in shown
    assert "reports_in_all: 8" in shown
    assert "epsilon: 0" not in shown


@pytest.mark.long
def test_the_guide_leads_to_a_version_and_to_a_device_of_ones_own(repository: Path, tmp_path: Path) -> None:
    text = (repository / "docs/guide/device-streams.md").read_text()
    section = text[text.index("## From a stream to a first version") : text.index("## A stream\n")]
    up, first_version, ended, *more = re.findall(r"```bash\n((?!mkdir).*?)```", section, re.DOTALL)
    assert "device odometer phone" in section
    assert not more
    (device,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(device.splitlines()) <= 10
    commands = [
        begun(repository / "docs/guide/device-streams.md"),
        up,
        "trap 'kill %1; wait' EXIT",
        "until (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do sleep 0.2; kill -0 %1; done",
        first_version,
        f"python - <<'END'\n{device}END",
        "ptk device odometer phone",
        ended,
    ]
    shown = run("\n".join(commands).replace("8000", str(free_port())), tmp_path, tmp_path)
    for said in ("newest.version: 1", "taken_at_most", "Report(at=", "in all: 1 report, epsilon 3.47"):
        assert said in shown
    assert re.search(r"^ptk_[0-9a-f]{16}_\S+$", shown, re.MULTILINE)  # the token of a gateway


def test_the_guide_tells_every_field_of_a_local_guarantee(repository: Path) -> None:
    from ptkstore.domain.versions.manifests import local_content_of

    guide = (repository / "docs/guide/device-streams.md").read_text()
    source = Path(local_content_of.__code__.co_filename).read_text()
    body = source[source.index("def local_content_of") : source.index("def _of_draft")]
    for name in re.findall(r'^ {12}"(\w+)":', body, re.MULTILINE):
        if name not in ("accountant", "assurance"):
            assert f"`{name}`" in guide or f"guarantee.{name}" in guide, name
