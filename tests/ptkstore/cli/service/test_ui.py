"""`ptk ui`: a console that is open at once, for whoever works in the home."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from ptkstore.adapters.processes import listen
from ptkstore.domain.identity import Role
from tests.support.api_server import Api
from tests.support.command_line import CREATE, Line
from tests.support.waiting import free_port, until

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/console/open\?link=([A-Za-z0-9_-]{43})")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as api:
        api.world.clock.time = datetime.now(UTC)  # by which the command goes
        api.world.stream()
        yield api


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where browsers were sent."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: addresses.append(url) or True)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    return addresses


def test_without_a_browser_it_prints_a_link_that_opens_the_console(
    api: Api, tmp_path: Path, opened: list[str]
) -> None:
    said = Line(tmp_path / "home").run("ui", "--port", str(api.port)).stdout
    (found,) = LINK.findall(said)
    assert found[0] == str(api.port)
    client = api.client()
    link = LINK.search(said)
    assert link is not None
    assert client.get(link[0]).status_code == 200
    assert "taxi" in client.get("/console/").text
    assert opened == []
    (token,) = api.identity.tokens("taxi")
    assert (token.label, Role.ADMINISTRATOR in token.scopes) == ("ptk ui", True)
    assert (token.expires_at - token.created_at).total_seconds() == 12 * 3600
    issued = next(one for one in api.identity.audit_log() if one.action == "token.issue")
    assert (issued.team, issued.subject, issued.outcome) == ("local", "team/taxi", "done")


def test_a_browser_is_started_with_a_private_page_and_not_with_the_link(
    api: Api, tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    said = Line(tmp_path / "home").run("ui", "--port", str(api.port)).stdout
    assert not LINK.search(said)
    (address,) = opened
    assert address.startswith("file://")
    page = Path(address.removeprefix("file://"))
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    link = LINK.search(page.read_text())
    assert link is not None
    assert link[2] not in address
    assert api.client().get(link[0]).status_code == 200
    assert not page.exists()
    assert LINK.search(Line(tmp_path / "home").run("ui", "--port", str(api.port), "--no-browser").stdout)
    assert len(opened) == 1


def test_where_several_teams_own_streams_it_acts_for_administrators_unless_told(
    api: Api, tmp_path: Path, opened: list[str]
) -> None:
    ptk = Line(tmp_path / "home")
    ptk.run("stream", "create", "rides", "--team", "ads", *CREATE[5:])
    ptk.run("ui", "--port", str(api.port))
    assert [token.label for token in api.identity.tokens("administrators")] == ["ptk ui"]
    assert "no team" in ptk.run("ui", "--port", str(api.port), "--team", "none", code=2).stderr
    ptk.run("ui", "--port", str(api.port), "--team", "ads")
    assert [token.label for token in api.identity.tokens("ads")] == ["ptk ui"]


def test_a_port_that_somebody_else_has_is_refused(tmp_path: Path, opened: list[str]) -> None:
    ptk = Line(tmp_path / "home")
    ptk.run("team", "create", "taxi")
    (one,) = listen("127.0.0.1", 0)
    with one:
        said = ptk.run("ui", "--port", str(one.getsockname()[1]), code=1).stderr
    assert "is in use; choose another by --port" in said
    assert not (tmp_path / "home" / "links").exists()


def test_a_mistyped_home_is_told_of_and_not_made(tmp_path: Path, opened: list[str]) -> None:
    assert "there is no store" in Line(tmp_path / "none").run("ui", code=2).stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.long
@pytest.mark.real
def test_it_serves_a_home_that_no_server_serves_and_logs_no_link(tmp_path: Path) -> None:
    home, port, told = tmp_path / "home", free_port(), tmp_path / "told"
    Line(home).run("team", "create", "taxi")
    command = [sys.executable, "-m", "ptkstore.cli.main", "ui", "--no-browser", "--port", str(port)]
    with told.open("w") as output:
        process = subprocess.Popen(
            [*command, "--home", str(home)], stdout=output, stderr=output, env=dict(os.environ)
        )
    try:
        until(lambda: process.poll() is not None or "stop with" in told.read_text(), seconds=120)
        link = LINK.search(told.read_text())
        assert link is not None, told.read_text()
        with httpx.Client(trust_env=False, timeout=60) as client:
            assert client.get(link[0]).status_code == 200
            assert client.get(f"http://127.0.0.1:{port}/console/").status_code == 200
            assert client.get(link[0]).status_code == 403
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    log = home / "log" / "ui.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert '"route": "/open"' in log.read_text()
    for file in home.rglob("*"):
        assert not file.is_file() or link[2].encode() not in file.read_bytes(), file
    with pytest.raises(httpx.ConnectError):  # the server is gone with the command
        httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
