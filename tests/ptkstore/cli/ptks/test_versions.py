"""`ptk diff`, `ptk rollback` and `ptk materialize`."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptkstore
from tests.support.cases import case
from tests.support.command_line import Line
from tests.support.world import World, speed

PTK = "taxi.speed"


@pytest.fixture
def ptk(tmp_path: Path) -> Line:
    """The command line of a home with two published versions; the second promises something else."""
    world = World(tmp_path / "home")
    world.stream()
    world.register()
    world.publish(0)
    world.service.update_ptk(PTK, target=0.05, estimator=speed(0.2))
    world.publish(1)
    world.service.close()
    return Line(tmp_path / "home")


def test_diff_shows_facts_and_changes(ptk: Line) -> None:
    found = ptk.json("diff", PTK, "v1", "2")
    assert found["versions"] == [1, 2]
    assert found["facts"]["tau"] == [0.1, 0.05]
    (table,) = found["tables"]
    assert (table["table"], table["n_added"], table["n_kept"]) == ("statistics", 0, 24)
    output = ptk.run("diff", PTK, "1", "2").output
    for words in ("target", "0.05", "0 rows added, 0 dropped, 24 kept", "speed_mean"):
        assert words in output
    assert "the manifests promise the same" in ptk.run("diff", PTK, "2", "2").output


def test_diff_shows_the_noise_of_both_versions_beside_what_changed(ptk: Line) -> None:
    told = ptk.run("diff", PTK, "1", "2").stdout
    table = told[told.index("rows added") :].splitlines()
    (header,) = (line for line in table if "column" in line and "noise" in line)
    titles = [cell.strip() for cell in header.strip("┃").split("┃")]
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in table if line.startswith("│")]
    shown = {row[0]: dict(zip(titles, row, strict=True)) for row in rows}
    for number in (1, 2):
        with ptkstore.connect(ptk.home) as store:
            noise = store.service.version(PTK, number).content["state"]["noise_std"]["statistics"]
        for column in ("count", "speed_sum"):
            assert float(shown[column][f"noise_v{number}"]) == pytest.approx(noise[column], rel=1e-4)
        assert shown["speed_mean"][f"noise_v{number}"] == ""  # a mean has no noise of its own
    assert float(shown["count"]["noise_v1"]) < float(
        shown["count"]["noise_v2"]
    )  # the second continues the first


def test_rollback_elects_a_new_version(ptk: Line) -> None:
    assert ptk.json("rollback", PTK, "--to", "v1") == {"ptk": PTK, "version": 3, "repeats": 1}
    assert "v3 repeats v1" in ptk.run("rollback", PTK, "--to", "1").output
    assert "newest already" in ptk.refused("rollback", PTK, "--to", "3", code=2)


def test_a_list_of_versions_says_what_each_was_made_from(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    world.register()
    world.publish(0)
    world.publish(1)
    world.service.update_ptk(PTK, estimator=speed(0.2, top=90.0))
    world.publish(2)
    world.service.close()
    ptk = Line(tmp_path / "home")
    ptk.run("rollback", PTK, "--to", "v1")
    ptk.run("work")
    assert [(one["release_decision"], one["made_from"]) for one in ptk.json("versions", PTK)] == [
        ("elected", ""),
        ("elected", "v1"),
        ("elected", ""),  # another bound: it begins anew
        ("rolled-back", "v1"),
    ]


def test_materialize_has_the_newest_version_written_online_again(ptk: Line) -> None:
    assert ptk.json("materialize", PTK) == {"ptk": PTK, "version": 2}
    assert "v2" in ptk.run("materialize", PTK).output
    assert f"ptk materialize {PTK}" in ptk.refused("rollback", PTK, "--to", "2", code=2)


def test_what_is_unknown_or_malformed_is_named(ptk: Line) -> None:
    for words, code, message in [
        (("diff", PTK, "one", "2"), 2, "no version"),
        (("diff", PTK, "1", "9"), 2, "v9"),
        (("diff", "taxi", "1", "2"), 2, "PTK id"),
        (("rollback", PTK, "--to", "9"), 2, "v9"),
        (("rollback", PTK, "--to", "-1"), 2, "no version"),
        (("materialize", "taxi.nobody"), 2, "taxi.nobody"),
        (("rollback", "taxi.nobody", "--to", "1"), 2, "taxi.nobody"),
    ]:
        with case(str((words, code, message))):
            assert message in ptk.refused(*words, code=code)
