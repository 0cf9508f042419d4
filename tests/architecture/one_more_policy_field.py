"""Find a field `spare` of a policy in every place that a policy has; a test runs this where there is one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ptkstore.adapters.sql.content import stream_of as stored_of
from ptkstore.adapters.sql.content import stream_text
from ptkstore.api.app import create_app
from ptkstore.cli.main import app
from ptkstore.domain.streams.policy_texts import policy_text
from ptkstore.domain.streams.streams import Stream
from ptkstore.errors import InvalidRequest, NameTaken
from ptkstore.sdk.documents.resources import asked_document, stream_document, stream_of
from ptkstore.sdk.store import connect
from ptkstore.settings import Settings
from ptkstore.wire.streams import StreamIn, StreamOut
from ptkstore.wiring import Service

SCHEMA = {"at": "timestamp"}
ARGUMENTS: dict[str, Any] = {"team": "taxi", "time_column": "at", "epsilon": 1.0}


def run(*words: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    made = CliRunner().invoke(app, [*words, "--json"])
    assert made.exit_code == 0, made.output
    found: dict[str, Any] = json.loads(made.output)
    return found


def spare_of(stream: Stream) -> Any:
    """The field itself, which the type checker does not know."""
    return getattr(stream.policy, "spare")  # noqa: B009


home = Path(os.environ["PTK_HOME"])
store: Any
with connect(home) as store:
    # Python
    store.create_stream("usual", schema=SCHEMA, **ARGUMENTS)
    store.create_stream("python", schema=SCHEMA, spare=7, **ARGUMENTS)
    usual, python = store.service.stream("usual"), store.service.stream("python")
    assert (spare_of(usual), spare_of(python)) == (3, 7)
    for wrong in (0, 10, True, "7"):
        with pytest.raises(InvalidRequest, match=r"^spare must be a whole number between 1 and 9\n"):
            store.create_stream("wrong", schema=SCHEMA, spare=wrong, **ARGUMENTS)
    with pytest.raises(NameTaken, match="spare is 7, not 8"):
        store.create_stream("python", schema=SCHEMA, spare=8, **ARGUMENTS)
    assert {one["name"]: one["spare"] for one in store.streams()} == {"python": 7, "usual": 3}

    # the command line
    run(
        "stream",
        "create",
        "cli",
        "--team=taxi",
        "--schema=at:timestamp",
        "--time-column=at",
        "--epsilon=1",
        "--spare=8",
    )
    assert spare_of(store.service.stream("cli")) == 8
    assert run("stream", "show", "cli")["spare"] == 8
    assert "One more." in CliRunner().invoke(app, ["stream", "create", "--help"]).output

    # signed reports
    report = json.loads(store.service.export_ledger("cli").content)["report"]
    assert report["policy"]["spare"] == 8

# SQL, and the digests of policies that know nothing of it
assert stored_of(stream_text(python)) == python
assert "spare" not in policy_text(usual.policy)

# HTTP
assert stream_of(stream_document(python)) == python
assert stream_of(StreamIn(**asked_document(python)).model_dump()) == python
assert StreamOut(**stream_document(python)).model_dump()["spare"] == 7
of_before = {name: value for name, value in stream_document(usual).items() if name != "spare"}
assert stream_of(of_before) == usual
schemas = create_app(Service(Settings(home=home))).openapi()["components"]["schemas"]
assert schemas["StreamIn"]["properties"]["spare"] == {
    "default": 3,
    "maximum": 9,
    "minimum": 1,
    "title": "Spare",
    "type": "integer",
}
assert schemas["StreamOut"]["properties"]["spare"] == {"default": 3, "title": "Spare", "type": "integer"}
