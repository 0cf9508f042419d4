"""Tables in a terminal: no heading or short cell is broken, and what has no room is said otherwise."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ptkstore.cli import output
from ptkstore.cli.output import loss_text, print_rows

SHA = "d1859a2bbd3d9c08b86fdf5e81925f2a0ecd3d94c91436c995b479110" + "1f1e178"
BUDGET = [
    {
        "block": number,
        "part": part,
        "state": "active",
        "capacity_epsilon": 1.0,
        "reserved_epsilon": 0.0,
        "spent_epsilon": 0.8 if part == "train-0" else 0.0,
        "capacity_delta": 1e-06,
        "tight_epsilon": 0.799951 if part == "train-0" else 0.0,
        "tight_delta": 0.0,
    }
    for number, part in enumerate(("profile", "test", "train-0"))
]
VERSION = {"version": 1, "published_at": "2026-11-28T02:04:58+00:00", "loss": None, "manifest_sha256": SHA}


def printed(monkeypatch: pytest.MonkeyPatch, rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    screen = io.StringIO()
    terminal = output._Terminal(file=screen, force_terminal=True, width=width, emoji=False, color_system=None)
    monkeypatch.setattr(output, "console", terminal)
    print_rows(rows, as_json=False, title="Rows", nothing="none", number=loss_text)
    return re.sub("\x1b\\[[0-9;]*m", "", screen.getvalue()).splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_word_is_broken_and_no_line_is_too_long(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = printed(monkeypatch, BUDGET, width)
    told = " ".join(lines)
    for word in (
        "block",
        "part",
        "capacity",
        "reserved",
        "epsilon",
        "profile",
        "train-0",
        "0.799951",
        "1e-06",
    ):
        assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", told), (word, told)
    assert max(map(len, lines)) <= width


def test_a_table_that_fits_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, [VERSION], 120)
    assert SHA in lines[4]
    assert "2026-11-28 02:04" in lines[4]
    assert [one.strip() for one in lines[2].strip("┃").split("┃")] == [
        "version",
        "published at (UTC)",
        "manifest sha256",
    ]  # and not `loss`, which no version has


def test_what_all_rows_share_becomes_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, BUDGET, 80)
    assert " ".join(" ".join(lines).split()).endswith(
        "In every row: state active, capacity epsilon 1, reserved epsilon 0, capacity delta 1e-06, tight delta 0."
    )
    assert "capacity" not in lines[2]


def test_two_rows_keep_all_their_columns_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, BUDGET[:2], 80)
    assert "In every row" not in " ".join(lines)
    names = [one.split("  ")[0] for one in lines if "  " in one]
    assert names == [one.replace("_", " ") for one in BUDGET[0]] * 2


def test_hashes_are_shortened_where_they_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, [VERSION, {**VERSION, "version": 2}], 80)
    assert SHA[:12] in " ".join(lines)
    assert SHA[:13] not in " ".join(lines)


def test_rows_become_lines_where_nothing_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, BUDGET[:1], 40)
    assert "capacity epsilon  1" in [one.rstrip() for one in lines]
    assert not any("┃" in one for one in lines)


def test_piped_tables_are_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([VERSION], as_json=False, title="Rows", nothing="none")
    told = capsys.readouterr().out
    assert "manifest_sha256" in told
    assert SHA in told
