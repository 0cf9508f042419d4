"""`ptk lake garbage` and `ptk lineage`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ptkstore.sdk import Store
from ptkstore.sdk.documents.lineage import lineage_of
from tests.support.command_line import Line
from tests.support.world import DAY, ORIGIN, World

PTK = "taxi.speed"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store with three versions, the third a repetition of the first."""
    world = World(tmp_path / "home")
    world.stream()
    world.register()
    world.publish(0)
    world.publish(1)
    Store(world.service).rollback(PTK, 1)
    world.work("place")
    world.service.close()
    return tmp_path / "home"


def test_garbage_is_shown_before_it_is_deleted(home: Path) -> None:
    ptk = Line(home)
    assert ptk.json("lake", "garbage") == []
    left = home / "lake" / "ptks" / PTK / "v00000009" / "t.parquet"
    left.parent.mkdir()
    left.write_bytes(b"x")
    a_month_ago = time.time() - 30 * 86_400
    os.utime(left, (a_month_ago, a_month_ago))
    expected = {
        "place": "lake",
        "path": f"ptks/{PTK}/v00000009/t.parquet",
        "reason": "never-elected",
        "kept": False,
    }
    assert ptk.json("lake", "garbage") == [expected]
    assert ptk.json("lake", "garbage", "--older-than", "40d") == []
    assert "1 file would be deleted" in ptk.run("lake", "garbage").output
    assert left.exists()
    assert ptk.json("lake", "garbage", "--delete") == [expected]
    assert not left.exists()
    assert "one hour" in ptk.refused("lake", "garbage", "--older-than", "5m", code=2)


def test_lineage_goes_back_to_the_first_trainings(home: Path) -> None:
    ptk = Line(home)
    third = ptk.json("lineage", PTK)
    assert [(one["version"], one["made_from"], one["intact"]) for one in third] == [
        (3, [f"{PTK} v1"], True),
        (1, [], True),
    ]
    assert third[0]["decision"] == "rolled-back"
    assert [one["version"] for one in ptk.json("lineage", PTK, "--version", "v1")] == [1]
    assert f"{PTK} v1" in ptk.run("lineage", PTK).output
    assert "no version" in ptk.refused("lineage", PTK, "--version", "x", code=2)
    assert ptk.refused("lineage", PTK, "--version", "9", code=2)
    assert ptk.refused("lineage", "taxi.nobody", code=2)


def test_a_window_is_followed_to_the_versions_that_its_rows_went_into(home: Path) -> None:
    ptk = Line(home)
    assert [(one["version"], one["newest"]) for one in ptk.json("lineage", "taxi", "--window", "0")] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    assert ptk.json("lineage", "taxi", "--window", "1") == [
        {
            "ptk_id": PTK,
            "version": 2,
            "window_end": "2026-01-07T00:00:00+00:00",
            "release_decision": "elected",
            "made_from": [f"{PTK} v1"],
            "newest": False,
            "assurance": "library",
            "asserted_by": None,
        }
    ]
    shown = ptk.run("lineage", "taxi", "--window", "0").output
    assert "rolled-back" in shown
    assert shown.count("newest") == 2  # the column, and the version
    world = World(home)
    world.stream("bikes")
    world.service.close_windows("bikes", ORIGIN + DAY)
    world.service.close()
    assert ptk.json("lineage", "bikes", "--window", "0") == []
    assert "no published version" in ptk.run("lineage", "bikes", "--window", "0").output


def test_a_lineage_is_of_a_ptk_or_of_a_window(home: Path) -> None:
    ptk = Line(home)
    assert "give one" in ptk.refused("lineage", PTK, "--version", "1", "--window", "0", code=2)
    assert "no stream" in ptk.refused("lineage", PTK, "--window", "0", code=2)
    assert "stream with --window" in ptk.refused("lineage", "taxi", code=2)
    assert "no stream 'bikes'" in ptk.refused("lineage", "bikes", "--window", "0", code=2)
    assert "closed window 'taxi/2'" in ptk.refused("lineage", "taxi", "--window", "2", code=2)
    ptk.run("lineage", "taxi", "--window", "-1", code=2)


def test_an_ancestor_with_another_hash_or_none_at_all_is_told() -> None:
    def manifest(number: int, *origins: dict[str, object]) -> dict[str, object]:
        return {
            "version": number,
            "release_decision": "published",
            "newest_contributing_window": {"end": "2026-01-06"},
            "made_from": list(origins),
        }

    stored = {
        ("a.b", 1): manifest(1),
        ("a.b", 2): manifest(2, {"ptk_id": "a.b", "version": 1, "sha256": "0" * 64}),
    }
    found = lineage_of("a.b", 2, lambda *key: stored[key])
    assert [(one.version, one.intact) for one in found] == [(2, True), (1, False)]


def test_a_period_is_followed_to_the_versions_that_its_windows_went_into(home: Path) -> None:
    ptk = Line(home)
    first, second = (f"{ORIGIN + number * DAY:%Y-%m-%d}" for number in (0, 1))

    def found(*words: str) -> list[tuple[int, list[int]]]:
        return [(one["version"], one["windows"]) for one in ptk.json("lineage", "taxi", *words)]

    assert found("--from", first) == [(1, [0]), (2, [0, 1]), (3, [0])]
    assert found("--from", first, "--to", second) == [(1, [0]), (2, [0]), (3, [0])]
    assert found("--from", second) == [(2, [1])]
    assert found("--from", "2099-01-01") == []
    text = ptk.run("lineage", "taxi", "--from", first).output
    assert "windows 0 to 1" in text
    assert "went into a published version" in ptk.run("lineage", "taxi", "--from", "2099-01-01").output
    assert "no stream" in ptk.refused("lineage", PTK, "--from", first, code=2)
    assert "without --window" in ptk.refused("lineage", "taxi", "--from", first, "--window", "0", code=2)
    for words in (("--to", first), ("--from", second, "--to", first), ("--from", first, "--to", first)):
        assert "the earlier time first" in ptk.refused("lineage", "taxi", *words, code=2)
