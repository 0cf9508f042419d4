"""What the form that an officer signs has to say."""

from __future__ import annotations

from pathlib import Path


def test_outputs_of_models_trained_outside_are_not_protected_and_the_form_says_so(repository: Path) -> None:
    """New rows may depend on old ones through private releases alone (Sage, section 4.3)."""
    form = (repository / "docs" / "privacy-officer.md").read_text()
    (said,) = (line for line in form.splitlines() if line.startswith("**Not protected.**"))
    assert "models trained outside whose outputs feed back into the stream" in said
