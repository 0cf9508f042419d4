"""A field is declared in one place, and every other place that has it follows from there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

from ptkstore.domain.ptks.ptks import CONFIG_KEYS
from ptkstore.domain.streams.streams import POLICY_FIELDS
from ptkstore.sdk.policies import policy_of
from ptkstore.sdk.repository.declarations import PTK
from ptkstore.sdk.store import Store
from tests.architecture.source import REPOSITORY

POLICY_FIELD = {
    "domain/streams/streams.py": (
        "    sharing: Sharing = ONE_BUDGET\n",
        '    spare: Annotated[int, WholeNumber("One more.", most=9, later=True)] = 3\n',
    ),
    "sdk/streams.py": ('        closing: str = "clock",\n', "        spare: int = 3,\n"),
}
PTK_FIELD = {
    "domain/ptks/ptks.py": ("\n_FREQUENCY = ", 'CONFIG_KEYS |= {"spare"}\n'),
    "sdk/repository/declarations.py": (
        "    pinned: Mapping[str, int] | None = None\n",
        "    spare: tuple[int, int] | None = None\n",
    ),
}


@pytest.mark.parametrize(
    ("lines", "program"),
    [(POLICY_FIELD, "one_more_policy_field.py"), (PTK_FIELD, "one_more_ptk_field.py")],
    ids=["policy", "ptk"],
)
def test_a_line_or_two_add_a_field_everywhere(
    lines: dict[str, tuple[str, str]], program: str, tmp_path: Path
) -> None:
    """The declaration, and its name in the signature that people see; all else is found without a change."""
    tree = tmp_path / "ptkstore"
    shutil.copytree(REPOSITORY / "ptkstore", tree, ignore=shutil.ignore_patterns("__pycache__"))
    for file, (place, line) in lines.items():
        text = (tree / file).read_text(encoding="utf-8")
        assert text.count(place) == 1, (file, place)
        (tree / file).write_text(text.replace(place, line + place), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(program))],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PTK_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_arguments_of_create_stream_are_the_declared_ones_with_their_defaults() -> None:
    arguments = signature(Store.create_stream).parameters
    declared = {field.argument: field for field in POLICY_FIELDS if field.argument}
    by_hand = {"epsilon", "delta", "block_by", "contexts", "no_collusion", "reserve", "retire_below"}
    assert set(arguments) == {*declared, *by_hand, "self", "name", "team", "schema", "time_column"}
    defaults = {name: one.default for name, one in arguments.items()}
    policy = policy_of({**defaults, "epsilon": 1, "origin": "2026-01-05"})
    assert {name for name, one in declared.items() if getattr(policy, one.name) != one.default} == {"origin"}


def test_what_a_ptk_may_say_beside_its_estimator_has_a_field_each() -> None:
    of_every_ptk = {"name", "stream", "estimator", "target", "every", "description"}
    assert {one.name for one in fields(PTK)} == of_every_ptk | CONFIG_KEYS
