"""Room for more PTKs: the same over HTTP, in the client and on the command line, and for the same roles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ptkstore import connect
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.identity import Role
from tests.support.api_server import Api, problem
from tests.support.command_line import Line
from tests.support.world import World

PATH = "/v1/streams/taxi/room"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        yield api


def test_the_room_is_for_who_reads_budgets_and_the_client_reads_it(api: Api) -> None:
    assert api.acting().get(PATH).json() == {"stream": "taxi", "room": None}
    api.world.register("last", epsilon=0.3)
    for role in (Role.DEVELOPER, Role.OFFICER, Role.ADMINISTRATOR):
        room = api.acting(role).get(PATH).json()["room"]
        assert (room["like"], room["more"], room["basis"]) == ("taxi.last", 2, "window")
        assert room["sentence"] == "Room for 2 more PTKs like taxi.last, at epsilon 0.3, delta 0 a window."
    for role in (Role.PRODUCER, Role.CONSUMER):
        assert problem(api.acting(role).get(PATH)) == (403, "not-allowed")
    assert problem(api.acting(team="strangers").get(PATH)) == (404, "unknown-name")
    with connect(api.url, token=api.token()) as store:
        assert store.service.room_for_more("taxi") == api.world.service.room_for_more("taxi")


def test_of_a_stream_with_contexts_only_ones_own_is_told(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        sharing = Sharing((("north", ("taxi",)), ("south", ("ads",))), "the two never share an analyst")
        api.world.stream(sharing=sharing)
        api.world.register("secret", epsilon=0.3)
        api.grant("ads", "taxi", Role.DEVELOPER)
        assert api.acting(team="ads").get(PATH).json()["room"] is None
        assert api.acting().get(PATH).json()["room"]["like"] == "taxi.secret"


def test_the_command_line_says_it_below_the_budget(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream()
    world.register("last", epsilon=0.3)
    world.service.close()
    said = Line(tmp_path / "home").run("budget", "taxi", "--room").output
    assert "Room for 2 more PTKs like taxi.last" in " ".join(said.split())
