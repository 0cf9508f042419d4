"""What the guides to subscriptions and featurizing show runs as it is written."""

from __future__ import annotations

import contextlib
import io
import json
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
import redis
from typer.testing import CliRunner

from ptklib import HistoricalStatistics
from ptkstore.adapters.processes import RedisServer
from ptkstore.adapters.streams import RedisStreams
from ptkstore.adapters.webhooks import courier, messenger, new_secret
from ptkstore.adapters.webhooks.signing import signed_headers
from ptkstore.cli.main import app
from ptkstore.domain import subscriptions as rules
from ptkstore.domain.subscriptions import LONGEST_OVERLAP, USUAL_OVERLAP
from ptkstore.ports.messages import Delivered, Message
from ptkstore.sdk import connect

BODY = b'{"type":"ptk.state.published","data":{"version":1}}'


def run(code: str) -> dict[str, Any]:
    """What a page of ours defines."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page is part of the project
    return names


def examples(page: str) -> list[str]:
    return re.findall(r"<!-- example: tested as it stands -->\n```python\n(.*?)```", page, re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs/guide/subscriptions.md").read_text()


@pytest.fixture(scope="module")
def verified(page: str) -> Callable[..., Any]:
    return run(examples(page)[0])["verified"]


def test_the_receiver_takes_what_the_service_signs_also_during_a_rotation(
    verified: Callable[..., Any],
) -> None:
    old, new = new_secret(), new_secret()
    now = datetime.now(UTC)
    for signing in ([old], [new, old], [new_secret(), new, old]):
        assert verified(old, signed_headers(signing, "msg_1", now, BODY), BODY) == json.loads(BODY)


def test_the_receiver_refuses_everything_else(verified: Callable[..., Any]) -> None:
    secret, now = new_secret(), datetime.now(UTC)
    headers = dict(signed_headers([secret], "msg_1", now, BODY))
    late = signed_headers([secret], "msg_1", now - timedelta(minutes=10), BODY)
    for given, others, body in (
        (new_secret(), headers, BODY),
        (secret, headers, BODY + b" "),
        (secret, {**headers, "webhook-id": "msg_2"}, BODY),
        (secret, {**headers, "webhook-signature": "v1, v1,x"}, BODY),
        (secret, late, BODY),
    ):
        with pytest.raises(ValueError, match=r"old|signed"):
            verified(given, others, body)


def test_the_whole_receiver_takes_a_signed_message_and_no_other(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = new_secret()
    server = run("".join(examples(page)[:2]))["receiver"](secret, 0)
    address = f"http://127.0.0.1:{server.server_address[1]}/hook"
    message = json.dumps(
        {"type": "ptk.state.published", "data": {"ptk_id": "taxi.speed", "version": 4}}
    ).encode()
    answers = []
    for signing in (secret, new_secret()):
        headers = dict(signed_headers([signing], "msg_1", datetime.now(UTC), message))
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        answers.append(httpx.post(address, content=message, headers=headers).status_code)
        thread.join()
    server.server_close()
    assert answers == [204, 400]
    printed = capsys.readouterr().out
    assert "ptk.state.published taxi.speed 4\n" in printed
    assert "refused: not signed with this secret\n" in printed


def test_a_consumer_group_reads_every_event_once(page: str, redis_server: RedisServer) -> None:
    names = run(examples(page)[2])
    url = f"{redis_server.client_url}?db=9"
    with redis.Redis.from_url(url) as client, contextlib.closing(RedisStreams(url)) as streams:
        client.flushdb()
        for number in (1, 2, 3):
            message = Message("", "", rules.message_id("sub_a", number), BODY, ())
            assert streams.append("ptk:events:ads:news", message, number, redelivered=False) == Delivered()
        read = [names["read"](client, "ptk:events:ads:news", "g", consumer) for consumer in ("a", "b")]
        assert [len(part) for part in read] == [3, 0]
        assert read[0][0] == json.loads(BODY)
        assert client.xpending("ptk:events:ads:news", "g")["pending"] == 0


def test_the_commands_exist_with_the_options_they_show(page: str) -> None:
    commands = re.findall(r"^ptk (.+?)(?:\s+#.*)?$", page, re.MULTILINE)
    assert len(commands) == 13
    for command in commands:
        words = command.split()
        shown = CliRunner().invoke(app, [words[0], "--help"], env={"COLUMNS": "200"})
        assert shown.exit_code == 0, command
        for option in (word for word in words if word.startswith("--")):
            assert option in shown.output, f"{command}: {option}"


def test_the_numbers_are_those_of_the_program(page: str) -> None:
    assert messenger.HttpMessenger().timeout_seconds == 10
    days = timedelta(days=1)
    said = {
        courier.PER_HOST: 32,
        courier.ADDRESSES_FRESH_SECONDS: 30.0,
        USUAL_OVERLAP: days,
        LONGEST_OVERLAP: 30 * days,
        rules.GIVE_UP_AFTER_ATTEMPTS: 36,
        rules.LONGEST_RETRY: timedelta(hours=4),
        rules.DISABLE_AFTER: 10 * days,
        rules.JITTER: 0.25,
        rules.STREAM_LENGTH: 10_000,
        rules.MISSED_TOLD: 100,
    }
    assert {number: told for number, told in said.items() if number != told} == {}
    waits = [rules.retry_wait("msg", n) for n in range(1, rules.GIVE_UP_AFTER_ATTEMPTS)]
    assert timedelta(days=3) < sum(waits, timedelta()) < timedelta(days=4.5)
    for number in ("36 times", "4 hours", "ten days", "10,000 entries", "32 calls", "30 seconds", "64 KiB"):
        assert number in page


@pytest.mark.long
def test_the_featurizing_example_prints_what_it_promises(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PTK_PUBLISH_TICK_SECONDS", "0.1")
    with connect() as store:
        store.create_stream(
            "taxi",
            team="taxi",
            schema={"at": "timestamp", "mph": "float64", "hour": "int64"},
            time_column="at",
            epsilon=1.0,
            origin="2026-01-05",
            closing="operator",
        )
        estimator = HistoricalStatistics(domains={"hour": range(24)}, bounds={"mph": (0, 60)}, epsilon=0.5)
        store.register_ptk(estimator, name="speed_by_hour", stream="taxi", target=0.05)
        at = pd.date_range("2026-01-05", "2026-01-06", 2_000, inclusive="left")
        store.ingest("taxi", pd.DataFrame({"at": at, "mph": 12.0, "hour": at.hour.astype("int64")}))
        store.close_windows("taxi", until="2026-01-06")
        store.work_until_idle()
    (example,) = examples((repository / "docs/guide/featurizing.md").read_text())
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        run(example)
    assert "taxi__speed_by_hour__mph_mean" in said.getvalue()
    assert "31" in said.getvalue()
