"""The page about the protocol of devices says what the clients do, and its examples run."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from ptklib.draw_discard import DeviceError, Limits, Numeric, Odometer, Specification, refusals
from ptklib.draw_discard.limits import StreamLimits
from ptklib.draw_discard.record import Record, Report
from tests.support.device_server import DRAW, PUT, SPECIFICATION, served
from tests.support.node import node

PAGE = "docs/reference/devices.md"
ONE = Specification(
    features=[Numeric("length", 0, 2_000), Numeric("links", 0, 20)], label=Numeric("spam", 0, 1), epsilon=3.47
)


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / PAGE).read_text(encoding="utf-8")


def block(page: str, language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return str(found)


def test_the_odometer_that_it_shows_has_the_fields_of_one(page: str) -> None:
    shown, real = json.loads(block(page, "json")), json.loads(Record().text)
    assert list(shown) == list(real)
    assert list(shown["limits"]) == [field.name for field in fields(Limits)]
    assert list(shown["lost"]) == list(real["lost"])
    assert set(shown["reports"][0]) - {"..."} < {field.name for field in fields(Report)}


def test_every_error_and_limit_is_there(page: str) -> None:
    errors = [
        one for one in vars(refusals).values() if isinstance(one, type) and issubclass(one, DeviceError)
    ]
    asked = {one.__name__ for one in errors} - {"DeviceError", "Refused"}
    assert len(asked) == 6
    assert [name for name in asked if f"`{name}`" not in page] == []
    assert [field.name for field in fields(StreamLimits) if field.name not in page] == []
    script = (Path(__file__).parents[2] / "examples/devices/ptk-device.mjs").read_text(encoding="utf-8")
    (codes,) = re.findall(r'@param \{((?:"[a-z-]+"\|?)+)\} code', script)
    assert [code for code in re.findall(r'"([a-z-]+)"', codes) if f"`{code}`" not in page] == []


def test_the_example_in_python_contributes(page: str, tmp_path: Path) -> None:
    with served(ONE) as server:
        text = block(page, "python").replace("https://ptk.example.org", server.url)
        exec(text.replace("~/.phishy", str(tmp_path)), {"ticket_from_the_backend": server.issue()})  # noqa: S102
        assert server.requests == [SPECIFICATION, DRAW, PUT]
    assert Odometer(tmp_path).read().in_all().reports == 1


def test_the_example_in_javascript_contributes(page: str, tmp_path: Path) -> None:
    client = Path(__file__).parents[2] / "examples/devices/ptk-device.mjs"
    storage = "const kept = new Map();\nconst localStorage = "
    storage += "{ getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => kept.set(key, text) };"
    with served(ONE) as server:
        text = block(page, "js").replace("https://ptk.example.org", server.url)
        text = text.replace("./ptk-device.mjs", str(client))
        ticket = f"const ticketFromTheBackend = {json.dumps(server.issue())};"
        (tmp_path / "example.mjs").write_text(f"{storage}\n{ticket}\n{text}", encoding="utf-8")
        ended = subprocess.run(
            [node(), str(tmp_path / "example.mjs")], capture_output=True, text=True, check=False, timeout=60
        )
        assert ended.returncode == 0, ended.stderr
        assert server.requests == [SPECIFICATION, DRAW, PUT]
