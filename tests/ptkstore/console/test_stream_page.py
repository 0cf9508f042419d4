"""The page of a stream: its windows, its bars, its room, its history and its grants, each for its roles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptkstore.application.identity.authorize import Named
from ptkstore.application.streams.read_time_line import Stage, TimedWindows
from ptkstore.console.charts import HEIGHT, PARTS_TOLD, budget_chart, part_colours
from ptkstore.console.pages.streams import budgets
from ptkstore.console.pages.streams.budgets import BLOCKS_MOST, windows_shown
from ptkstore.console.time_lines import WIDTH, time_line_marks
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.identity import STREAM_ROLES, Action, Principal, Role
from ptkstore.domain.ledger.odometers import LossPart
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import NotAllowed, UnknownName
from tests.support.api_server import Api
from tests.support.console_pages import HOSTILE, seen, signed_in
from tests.support.device_streams import SCHEMA, device_policy
from tests.support.statements import counted
from tests.support.world import DAY, NOW, ORIGIN, speed, trips

PAGE = "/console/streams/taxi"
SPLIT = "Of which ε alone (share)"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        world = api.world
        world.stream(retention_windows=2)
        world.register("speed", epsilon=0.2)
        world.service.register_ptk(
            team="ads", name="busy", stream="taxi", estimator=speed(0.3), target=0.1, train_frequency="1d"
        )
        for day in range(4):
            world.publish(day)
        world.work("expire")
        yield api


def text_of(api: Api, path: str = PAGE, *roles: Role, **more: Any) -> str:
    return re.sub(r"\s+", " ", seen(signed_in(api, *roles, **more).get(path)).text)


def exports(api: Api) -> list[tuple[str, str, str]]:
    lines = [one for one in api.identity.audit_log(limit=1_000) if one.action == "ledger.export"]
    return [(one.team, one.subject, one.outcome) for one in lines]


# windows


@pytest.mark.parametrize("role", [Role.PRODUCER, Role.OFFICER, Role.ADMINISTRATOR])
def test_who_may_read_the_exposure_sees_the_windows(api: Api, role: Role) -> None:
    page = signed_in(api, role).get(PAGE).text
    for name, stage in (("0", "expired"), ("1", "expired"), ("2", "closed"), ("4 and later", "open")):
        assert f"<title>window {name}: {stage}, from 2026-01-0" in page
    assert page.count("; rows are stored</title>") == 3  # two closed ones, and what is open
    assert page.count('class="stored"') == 3
    assert "<strong>expired</strong> its rows and their key are gone" in page
    assert "<strong>closing</strong>" not in page  # no window of an operator is
    assert "All 4 windows that closed." in page


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.CONSUMER])
def test_others_see_no_window(api: Api, role: Role) -> None:
    page = signed_in(api, role).get(PAGE).text
    assert "Your roles do not read what is stored of a stream" in page
    assert "expired, from" not in page
    assert "rows are stored" not in page


def test_windows_lead_to_their_versions_for_who_may_trace_them(api: Api) -> None:
    link = f"{PAGE}/windows/2"
    admin = signed_in(api, Role.ADMINISTRATOR)
    assert f'href="{link}">2 versions</a>' in admin.get(PAGE).text
    assert link not in signed_in(api, Role.PRODUCER).get(PAGE).text
    window = seen(admin.get(link)).text
    assert "taxi.speed3" in window.replace(" ", "").replace("\n", "")
    assert "closed: takes no more rows" in window
    consumer = seen(signed_in(api, Role.CONSUMER).get(link)).text
    assert "ads.busy" in consumer
    assert "takes no more rows" not in consumer
    assert signed_in(api, Role.PRODUCER).get(link).status_code == 403
    assert signed_in(api, *STREAM_ROLES, team="strangers").get(link).status_code == 404
    for wrong in ("99", "x", "-1", "1" * 40, "%00"):
        assert admin.get(f"{PAGE}/windows/{wrong}").status_code == 404, wrong


def test_a_refused_look_at_a_window_is_in_the_trail(api: Api) -> None:
    before = len(api.identity.audit_log(limit=1_000))
    assert signed_in(api, Role.PRODUCER).get(f"{PAGE}/windows/2").status_code == 403
    lines = api.identity.audit_log(limit=1_000)[before:]
    assert ("state.trace", "stream/taxi", "not-allowed") in [(o.action, o.subject, o.outcome) for o in lines]


def test_what_is_left_behind_of_an_expired_window_is_marked(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream(retention_windows=1)
        for day in range(3):
            api.world.publish(day)
        api.world.work("expire")
        assert 'class="stored"' in signed_in(api).get(PAGE).text
        clean = signed_in(api).get(PAGE).text.count('class="stored"')
        api.world.service.raw.write_part(WindowId("taxi", 0), 0, trips(), b"k" * 32)
        page = signed_in(api).get(PAGE).text
        assert page.count('class="stored"') == clean + 1
        assert "window 0: expired, from 2026-01-05 to 2026-01-06; rows are stored" in page


def test_pages_of_many_windows_are_bounded_and_lead_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "WINDOWS_SHOWN", 3)
    with Api(tmp_path / "home") as api:
        api.world.stream(retention_windows=40)
        api.world.register()
        for day in range(7):
            api.world.publish(day)
        client = signed_in(api)
        newest = client.get(PAGE).text
        assert "Windows 4 to 6 of 7 that closed." in newest
        assert re.findall(r'href="[^"]*before=(\d+)#time-line">(\w+)', newest) == [("4", "Older")] * 2
        middle = client.get(f"{PAGE}?before=4&by=ptk").text
        assert "Windows 1 to 3 of 7 that closed." in middle
        assert set(re.findall(r'before=(\d+)#time-line">(\w+)', middle)) == {("1", "Older"), ("7", "Newer")}
        assert re.findall(r"<title>(2026-[\d-]+), train-0", middle) == [
            "2026-01-06",
            "2026-01-07",
            "2026-01-08",
        ]
        assert "before=4#budget" in middle  # the split stays on these windows
        for odd in ("x", "-3", "1" * 50, "4&before=5"):
            assert client.get(f"{PAGE}?before={odd}").status_code == 200


# bars


def test_bars_are_of_all_ptks_together_until_a_split_is_asked_for(api: Api) -> None:
    before = exports(api)
    client = signed_in(api, Role.OFFICER)
    page = client.get(PAGE).text
    assert "<title>2026-01-07, train-0: 0.5 spent, 0 reserved of 1, active</title>" in page
    assert 'class="part-0"' not in page
    assert (SPLIT in page, "ads.busy 0.3" in page) == (False, False)
    assert exports(api) == before  # a look at the page exports nothing
    assert 'href="/console/streams/taxi?by=ptk&amp;#budget"' in page
    split = client.get(f"{PAGE}?by=ptk").text
    assert "0.5 spent, 0 reserved of 1, active; ads.busy 60%; taxi.speed 40%</title>" in split
    assert "ads.busy 0.3 (60%), taxi.speed 0.2 (40%)" in split
    assert '<a href="/console/ptks/ads.busy">ads.busy</a>' in split
    assert exports(api)[len(before) :] == [("taxi", "stream/taxi", "done")]
    teams = client.get(f"{PAGE}?by=team").text
    assert "ads 0.3 (60%), taxi 0.2 (40%)" in teams
    assert len(exports(api)) == len(before) + 2


@pytest.mark.parametrize("roles", [(Role.DEVELOPER,), (Role.ADMINISTRATOR,)])
def test_who_may_not_export_the_ledger_sees_no_split_whatever_is_asked(
    api: Api, roles: tuple[Role, ...]
) -> None:
    client = signed_in(api, *roles)
    for path in (PAGE, f"{PAGE}?by=ptk", f"{PAGE}?by=team"):
        before = exports(api)
        page = client.get(path).text
        assert "0.5 spent, 0 reserved of 1, active</title>" in page
        assert "only an officer of the stream exports the ledger" in page
        assert "60%" not in page
        assert "by=ptk" not in page
        refused = [("taxi", "stream/taxi", "not-allowed")] if "?" in path else []
        assert exports(api)[len(before) :] == refused  # as over HTTP


def test_who_reads_no_budget_sees_neither_bars_nor_room(api: Api) -> None:
    for role in (Role.PRODUCER, Role.CONSUMER):
        page = signed_in(api, role).get(f"{PAGE}?by=ptk").text
        assert "Your roles do not read budgets" in page
        for told in ("0.5 spent", "Room for", "60%"):
            assert told not in page


def test_the_page_of_a_stream_with_more_than_500_ptks_counts_no_room(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream(n_max=100_000)
        api.world.register("first", epsilon=0.001)

        def add(*numbers: int) -> None:
            with api.world.service.begin() as uow:
                (spec, *_) = uow.ptks.find(stream="taxi")
                for number in numbers:
                    uow.ptks.add(replace(spec, ptk_id=f"taxi.p{number}", name=f"p{number}"))
                uow.commit()

        add(*range(1, 500))
        assert "Room for at least 100 more PTKs like taxi." in text_of(api)
        add(500)
        page = text_of(api)
        assert "Room for" not in page
        assert "not counted here, beside more than 500 PTKs. Ask for it by: ptk budget taxi --room" in page
        told = api.acting().get("/v1/streams/taxi/room").json()["room"]  # which whoever asks for it gets
        assert (told["more"], told["is_least"]) == (100, True)


def test_too_many_lines_are_told_and_not_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(api.world.service), "loss_parts", lambda *_: None)
    page = text_of(api, f"{PAGE}?by=ptk", Role.OFFICER)
    assert "More than 5,000 lines of the journal are about these blocks" in page
    assert "0.5 spent" in signed_in(api, Role.OFFICER).get(f"{PAGE}?by=ptk").text


@pytest.mark.parametrize("query", ["by=%00", "by=ptk&by=team", "part=<script>", "part=train-9", "by=PTK"])
def test_what_cannot_be_asked_for_asks_for_nothing(api: Api, query: str) -> None:
    answer = signed_in(api, Role.OFFICER).get(f"{PAGE}?{query}")
    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert SPLIT not in answer.text


def test_blocks_by_attribute_are_one_bar_for_each_part_of_a_window(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream(attribute="zone", attribute_values=("a", "b", "z"))
        api.world.register(epsilon=0.2, config={"where": {"zone": ["b"]}})
        api.world.publish(0)
        page = signed_in(api).get(PAGE).text
        assert re.findall(r"<title>(2026[^<]*)</title>", page) == [
            "2026-01-05, train-0, b: 0.2 spent, 0 reserved of 1, active"
        ]
        assert "a bar is the fullest block of its part of a window" in page
        assert "9 blocks of the windows above" in page


def test_every_part_can_be_asked_for_where_there_are_many(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream(train_partitions=8, n_max=100_000)
        for number in range(8):
            api.world.register(f"p{number}", epsilon=0.6)
        api.world.publish(0)
        page = signed_in(api).get(PAGE).text
        assert page.count('<figure class="budget">') == budgets.CHARTS_MOST
        assert re.findall(r'part=(train-\d)&amp;#budget">', page) == ["train-6", "train-7"]
        only = signed_in(api).get(f"{PAGE}?part=train-7").text
        assert re.findall(r"<title>2026-01-05, ([^:]*)", only) == ["train-7"]
        assert "All parts" in only


def test_streams_with_many_blocks_show_fewer_windows() -> None:
    def shown(**more: Any) -> int:
        return windows_shown(Policy(Loss.capacity(1), DAY, ORIGIN, **more))

    assert shown() == budgets.WINDOWS_SHOWN
    values = tuple(f"v{number}" for number in range(256))
    many = shown(attribute="zone", attribute_values=values, train_partitions=8)
    assert many == BLOCKS_MOST // (10 * 256) == 3
    assert shown(privacy_unit=PrivacyUnit.USER, unit_column="zone", user_shards=256) == budgets.WINDOWS_SHOWN


def test_bars_of_users_are_of_shards(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream(privacy_unit=PrivacyUnit.USER, unit_column="zone", user_shards=2)
        plain = speed(0.3)
        api.world.register(estimator={**plain, "params": {**plain["params"], "unit": "zone"}})
        api.world.publish(0)
        page = signed_in(api).get(f"{PAGE}?by=ptk").text
        assert re.findall(r"<title>(shard[^<]*)</title>", page) == [
            f"shard {n}, train-0: 0.3 spent, 0 reserved of 1, active; taxi.speed 100%" for n in range(2)
        ]
        assert "each a share of the users" in page
        assert "Room for 2 more trainings of taxi.speed" in page


def test_lines_of_contexts_have_bars_and_splits_of_their_own(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        sharing = Sharing((("north", ("taxi",)), ("south", ("ads",))), "the two never share an analyst")
        api.world.stream(sharing=sharing)
        api.world.register(epsilon=0.2)
        api.world.publish(0)
        page = signed_in(api).get(f"{PAGE}?by=ptk").text
        assert (
            "2026-01-05, train-0, context north: 0.2 spent, 0 reserved of 1, active; taxi.speed 100%" in page
        )
        assert "Room for 4 more PTKs like taxi.speed" in page
        assert "Nothing is lost or promised of:" in page


def part(name: str, share: float) -> LossPart:
    return LossPart(name, Loss.charge(0.1), share)


ROW = {
    "label": "day",
    "state": "active",
    "capacity_epsilon": 2.0,
    "spent_epsilon": 1.0,
    "reserved_epsilon": 0.5,
}


def test_segments_fill_what_was_spent_and_the_smallest_are_one() -> None:
    names = [f"taxi.p{number}" for number in range(PARTS_TOLD + 2)]
    shares = [0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.06, 0.04]
    parts = [part(*one) for one in zip(names, shares, strict=True)]
    colours = part_colours([parts])
    assert list(colours) == names[:PARTS_TOLD]
    (bar,) = budget_chart([ROW], [parts], colours).bars
    assert (bar.spent, bar.reserved, bar.room) == (HEIGHT / 2, HEIGHT / 4, HEIGHT / 4)
    assert sum(one.height for one in bar.parts) == pytest.approx(bar.spent)
    assert (bar.parts[-1].colour, bar.parts[-1].label) == (PARTS_TOLD, "2 more 10%")
    for one, other in zip(bar.parts, bar.parts[1:], strict=False):
        assert one.y + one.height == pytest.approx(other.y, abs=0.02)


def test_the_rest_of_a_block_that_is_closed_to_losses_is_marked_and_bars_share_one_scale() -> None:
    rows = [
        ROW,
        {**ROW, "state": "retired", "capacity_epsilon": 1.0, "spent_epsilon": 0.5, "reserved_epsilon": 0},
    ]
    chart = budget_chart(rows)
    assert [(bar.closed, bar.spent, bar.room) for bar in chart.bars] == [(False, 70, 35), (True, 35, 35)]
    assert (chart.limit, chart.capacity) == (HEIGHT, "2")


def test_stages_are_told_apart_by_height_and_windows_fill_the_line() -> None:
    windows = [TimedWindows(n, n, NOW, NOW, stage) for n, stage in enumerate(Stage)]
    marks = time_line_marks(windows, [one.stage.value for one in windows], {0, 2})
    assert [one.height for one in marks] == sorted({one.height for one in marks}, reverse=True)
    assert [one.exposed for one in marks] == [True, False, True, False, False]
    assert marks[0].x < 2
    assert marks[-1].x + marks[-1].width == pytest.approx(WIDTH, abs=2)


# policy, history, grants


def test_the_history_is_for_who_reads_the_audit_trail(api: Api) -> None:
    admin = signed_in(api, Role.ADMINISTRATOR, team="operators")
    assert "The audit trail has no line on it." in admin.get(PAGE).text
    with api.identity.recorded(Action.STREAM_CREATE, "stream/taxi", "r1", None):
        pass
    principal = Principal("operators", "abc123", frozenset({Role.ADMINISTRATOR}))
    with api.identity.recorded(Action.STREAM_EVOLVE, "stream/taxi", "r2", principal):
        pass
    with api.identity.recorded(Action.STREAM_INGEST, "stream/taxi", "r3", principal):
        pass
    page = text_of(api, PAGE, Role.ADMINISTRATOR, team="operators")
    told = page[page.index("Policy and its history") :]
    assert "a column addedteam operators abc123 done".replace(" ", "") in told.replace(" ", "")
    assert "created, with its policysomebody in the store's home" in told.replace("  ", " ")
    assert "ingest" not in told
    for role in (Role.DEVELOPER, Role.PRODUCER, Role.CONSUMER, Role.OFFICER):  # an officer of one stream
        page = text_of(api, PAGE, role)
        assert "in the audit trail, which your roles do not read" in page
        assert "abc123" not in page


def test_grants_are_for_administrators_and_lead_to_the_actions(api: Api) -> None:
    api.grant("press", "taxi", Role.CONSUMER)
    api.grant("press", "*", Role.OFFICER)
    admin = signed_in(api, Role.ADMINISTRATOR, team="operators")
    page = admin.get(PAGE).text
    link = "/console/act/grants/remove?team=press&amp;stream=taxi&amp;role=consumer"
    assert link in page
    assert "every stream" in page
    confirm = admin.get(link.replace("&amp;", "&"))
    assert (confirm.status_code, "You take from the team press the role consumer" in confirm.text) == (
        200,
        True,
    )
    assert 'href="/console/act/grants/add?stream=taxi"' in page
    for role in (Role.DEVELOPER, Role.PRODUCER, Role.CONSUMER, Role.OFFICER):
        page = signed_in(api, role).get(PAGE).text
        assert "Only administrators see who else has one" in page
        assert "press" not in page
        assert "/act/grants" not in page


def test_the_schema_says_what_columns_are_for(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        api.world.service.evolve_stream("taxi", "tip", ColumnType.STRING, HOSTILE)
        page = signed_in(api, Role.CONSUMER).get(PAGE)
        assert "event time" in page.text
        assert "<script" not in page.text
        assert HOSTILE[:8] in seen(page).text


def test_a_stream_of_devices_has_windows_and_no_bars(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        api.world.service.create_stream(Stream("phones", "taxi", SCHEMA, device_policy()))
        page = text_of(api, "/console/streams/phones?by=ptk")
        assert "Rows stay on devices, so no window has rows here." in page
        assert "Room for" not in page
        assert exports(api) == []


# roles


@pytest.mark.parametrize("team", ["taxi", "press", "strangers"])
def test_what_is_allowed_at_once_is_what_each_question_allows(api: Api, team: str) -> None:
    api.grant("press", "taxi", Role.CONSUMER)
    for named in (Named(stream="taxi"), Named(stream="none"), Named(ptk_id="taxi.speed"), None):
        for role in Role:
            who = Principal(team, "t", frozenset({role}))
            allowed = set()
            for action in Action:
                try:
                    api.identity.permit(who, action, *([] if named is None else [named]))
                except (NotAllowed, UnknownName):
                    continue
                allowed.add(action)
            assert api.identity.allowed(who, Action, named) == allowed, (named, role)


def test_statements_do_not_grow_with_windows_ptks_grants_or_acts(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        world = api.world
        world.stream(retention_windows=40)
        asked: dict[str, list[int]] = {}
        for days, extra in ((range(1), 1), (range(1, 8), 5)):
            for number in range(extra):
                world.register(f"p{number + len(days)}", epsilon=0.01)
                api.grant(f"team{number}", "taxi", Role.CONSUMER)
                with api.identity.recorded(Action.STREAM_CLOSE, "stream/taxi", f"r{number}{days}", None):
                    pass
            for day in days:
                world.publish(day)
            client = signed_in(api, *Role)
            for query in ("", "?by=ptk", "?before=1"):
                client.get(PAGE + query)
                with counted(world) as statements:
                    assert client.get(PAGE + query).status_code == 200
                asked.setdefault(query, []).append(len(statements))
        assert all(few == many for few, many in asked.values()), asked
        assert max(asked[""]) <= 30, asked
