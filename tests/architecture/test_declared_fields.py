"""A field is declared in one place, and every other place that has it follows from there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

from ptkstore.adapters.sql.content import ptk_text
from ptkstore.domain.ptks.ptks import CONFIG_KEYS, PTK_ARGUMENTS, PTK_FIELDS
from ptkstore.domain.streams.policies import POLICY_FIELDS
from ptkstore.sdk.documents.resources import ptk_document
from ptkstore.sdk.policies import policy_of
from ptkstore.sdk.repository.declarations import PTK
from ptkstore.sdk.store import Store
from ptkstore.wire.ptks import PtkIn, PtkOut, PtkPatch, WantedIn
from tests.architecture.source import REPOSITORY
from tests.support.builders import ptk_spec

POLICY_FIELD = {
    "domain/streams/policies.py": (
        "    sharing: Sharing = ONE_BUDGET\n",
        '    spare: Annotated[int, WholeNumber("One more.", most=9, later=True)] = 3\n',
    ),
    "sdk/streams.py": ('        closing: str = "clock",\n', "        spare: int = 3,\n"),
}
PTK_FIELD = {
    "domain/ptks/ptks.py": (
        "    profile: ProfileAsk | None = None\n",
        '    spare: Annotated[float, PositiveNumber("One more.", later=True)] = 3.0\n',
    ),
    "sdk/repository/declarations.py": (
        "    pinned: Mapping[str, int] | None = None\n",
        "    spare: float = 3.0\n",
    ),
    "sdk/store.py": ("        **facts: Unpack[FunctionFacts],\n", "        spare: float = 3.0,\n"),
}
PTK_CONFIG_FIELD = {
    "domain/ptks/ptks.py": (
        "\n\n@dataclass(frozen=True, slots=True)\nclass ReleasedFacts:",
        'CONFIG_KEYS |= {"spare"}\n',
    ),
    "sdk/repository/declarations.py": (
        "    pinned: Mapping[str, int] | None = None\n",
        "    spare: tuple[int, int] | None = None\n",
    ),
}


@pytest.mark.parametrize(
    ("lines", "program"),
    [
        (POLICY_FIELD, "one_more_policy_field.py"),
        (PTK_FIELD, "one_more_ptk_field.py"),
        (PTK_CONFIG_FIELD, "one_more_config_field.py"),
    ],
    ids=["policy", "ptk", "config"],
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
    declared = {one.name for one in PTK_FIELDS} - {"config"}
    assert {one.name for one in fields(PTK)} == {"name", "stream"} | declared | CONFIG_KEYS
    assert {one.name: one.default for one in fields(PTK)}["every"] == PTK_ARGUMENTS["train_frequency"].default


def test_the_fields_of_a_ptk_are_stored_and_shown_as_ever() -> None:
    stored = ["ptk_id", "team", "name", "stream", "estimator", "loss", "event", "tables", "target", "every"]
    stored += ["assurance", "config", "description", "profile"]
    documented = [*stored[:-1], "windows", "tags", "profile"]
    spec = ptk_spec()
    assert [one.name for one in PTK_FIELDS] == [
        "estimator",
        "target",
        "every",
        "config",
        "description",
        "windows",
        "tags",
    ]
    assert list(PTK_ARGUMENTS) == [
        "estimator",
        "target",
        "train_frequency",
        "config",
        "description",
        "windows",
        "tags",
    ]
    assert list(json.loads(ptk_text(spec))) == sorted(stored)
    assert list(ptk_document(spec)) == [
        *documented,
        "menu",
        "waiting",
        "family",
        "asserted_by",
        "guarantee_model",
    ]
    shown = ["ptk_id", "team", "name", "stream", "family", "estimator", "loss", "event", "tables", "target"]
    shown += ["every", "assurance", "asserted_by", "config", "description", "menu", "profile", "waiting"]
    shown += ["guarantee_model", "windows", "tags"]
    assert list(PtkOut.model_fields) == shown
    assert list(PtkIn.model_fields) == ["name", "team", "stream", *PTK_ARGUMENTS]
    assert list(WantedIn.model_fields) == ["name", *PTK_ARGUMENTS]
    assert list(PtkPatch.model_fields) == ["estimator", "target", "config", "description", "windows", "tags"]
