"""What the guides of the library show runs as it is written, on rows like those they name."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ptklib import ReleasedState


def blocks(repository: Path, page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (repository / "docs" / "guide" / page).read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "page",
    [
        "clustering",
        "counts",
        "covariance",
        "draw_discard",
        "embeddings",
        "linear",
        "sgd",
        "statistics",
        "trees",
    ],
)
def test_the_example_of_a_family_runs_and_its_state_is_saved_and_loaded(
    repository: Path,
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {"ReleasedState": ReleasedState}
    exec(blocks(repository, f"{page}.md")[0], shown)  # noqa: S102
    text = (repository / "docs" / "guide" / f"{page}.md").read_text()
    (save,) = re.findall(r"`(\w+\.to_state\(\)\.save\(.*?\))`", text)
    (load,) = re.findall(r"`(\w+\.from_state\(ReleasedState\.load\(.*?\)\))`", text)
    eval(save, shown)  # noqa: S307
    loaded = eval(load, shown)  # noqa: S307
    assert loaded.tables_ == shown[save.partition(".")[0]].tables_


def test_what_the_example_of_clusters_says_comes_out(repository: Path) -> None:
    example, shown = blocks(repository, "clustering.md")[0], {}
    exec(example, shown)  # noqa: S102
    promised = re.findall(r"^(pickups\.\S+) +# (\([\d, ]+\)|[\d.]+)", example, re.MULTILINE)
    assert len(promised) == 4
    assert [repr(eval(call, shown)) for call, _ in promised] == [said for _, said in promised]  # noqa: S307


def test_an_estimator_of_the_example_of_checks_passes_one(repository: Path) -> None:
    shown: dict[str, Any] = {}
    exec(blocks(repository, "checks.md")[0], shown)  # noqa: S102
    (cases,) = (mark for mark in shown["test_our_ptk"].pytestmark if mark.name == "parametrize")
    names = [str(case) for case in cases.args[1]]
    assert len(names) > 20


def test_the_example_of_validation_runs(repository: Path) -> None:
    shown: dict[str, Any] = {}
    exec("\n".join(blocks(repository, "validation.md")), shown)  # noqa: S102
    assert shown["verdict"].decision == "accept"
    assert shown["reject"].decision == "reject"


def test_the_numbers_beside_profiles_that_are_public_are_those_that_come_out(repository: Path) -> None:
    _, sampled, _, formula, drift = blocks(repository, "profiling.md")
    shown: dict[str, Any] = {}
    exec(sampled, shown)  # noqa: S102
    assert shown["Profile"].loads(shown["kept"]) == shown["profile"]
    assert [epsilon for epsilon, found in shown["profile"].points] == [0.05, 0.2, 1.0]
    exec(drift, shown)  # noqa: S102
    assert re.search(
        rf"^# {shown['drift'].detectable_risk():.3f}, .*\ndrift.detectable_risk\(\)$", drift, re.MULTILINE
    )
    assert not shown["drift"].run(shown["state"], shown["later"])
    assert f"population_needed()    # {shown['profiler'].population_needed()} " in sampled
    exec(formula[: formula.index("formula_profile(speeds")], shown)  # noqa: S102
    lines = formula.splitlines()
    promised = [(line, after.removeprefix("# ")) for line, after in pairwise(lines) if after.startswith("# ")]
    assert len(promised) == 2
    for call, answer in promised:
        points = eval(call, shown)  # noqa: S307
        assert [(epsilon, found.n) for epsilon, found in points] == [
            (float(epsilon), int(n)) for epsilon, n in re.findall(r"\(([\d.]+), Found\((\d+)\)\)", answer)
        ]


def test_the_example_of_the_librarys_page_runs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = re.findall(r"```python\n(.*?)```", (repository / "ptklib/README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec("\n".join(examples), {})  # noqa: S102
    assert (tmp_path / "speeds" / "state.json").exists()
    assert capsys.readouterr().out.startswith("0.5\n")
