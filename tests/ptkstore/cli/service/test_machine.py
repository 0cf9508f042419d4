"""What the processes of a machine are started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptkstore.adapters.processes import RedisServer
from ptkstore.cli.service.machine import running
from ptkstore.errors import Refused
from ptkstore.settings import Settings


def test_a_redis_for_devices_that_keeps_what_they_send_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    with RedisServer(tmp_path / "elsewhere") as keeps:  # with an append-only file, as that of jobs has
        settings = Settings(home=tmp_path / "home", devices_redis_url=keeps.client_url)
        with pytest.raises(Refused, match="appendonly"), running(settings):
            pytest.fail("it was started")
