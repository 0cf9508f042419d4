"""Commands that read, run in a home and with `PTK_URL` and a token: the same words lead to the same output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner, Result

from ptkstore.cli.main import app
from ptkstore.domain.identity import Role
from ptkstore.errors import Refused, UnknownName
from ptkstore.sdk import Store, connect
from ptkstore.sdk.remote import transport
from tests.support.api_server import Api
from tests.support.world import STREAM

PTK, GONE = "taxi.speed", "taxi.gone"
EVERY_ROLE = tuple(Role)
PROGRAM = str(Path(sys.executable).with_name("ptk"))


@pytest.fixture(scope="module", autouse=True)
def server_says_nothing() -> Iterator[None]:
    """The server's lines of its log would come between those of the commands, which run in the same process."""
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False)
    yield
    structlog.configure(**before)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A store with two PTKs, two versions of one, a subscriber and words left for owners; tests only read it."""
    with Api(tmp_path_factory.mktemp("http") / "home") as api:
        del api.world.service.__dict__["features"]  # the real one: lookups are compared
        api.world.stream(epsilon=2)
        api.world.stream("other")
        api.world.register(description="Mean speeds.")
        api.world.register("idle", epsilon=0.05, stream="other")
        api.world.service.deregister_ptk(api.world.register(GONE.partition(".")[2], epsilon=0.05))
        for day in range(2):
            api.world.publish(day)
        with pytest.raises(Refused):
            api.world.register("large", epsilon=5)
        api.identity.create_team("taxi")
        api.world.service.subscribe_to_ptk(PTK, "redis-stream:news", team="taxi")
        for words in (  # in the trail, too
            ["team", "create", "riders"],
            ["grant", "add", "riders", STREAM, "producer"],
            ["grant", "add", "riders", "other", "consumer"],
            ["grant", "add", "riders", "*", "consumer"],
        ):
            assert at_home(api, *words).exit_code == 0
        yield api


def run(words: Sequence[str], **environment: str) -> Result:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200", **environment})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def at_home(api: Api, *words: str) -> Result:
    return run(words, PTK_HOME=str(api.world.service.settings.root))


def over_http(api: Api, *words: str, token: str | None = None) -> Result:
    given = api.token(*EVERY_ROLE) if token is None else token
    return run(words, PTK_URL=api.url, PTK_TOKEN=given, PTK_HOME="/nowhere/at/all")


BOUNDS = ("--least-significance", "0.1", "--most-significance", "0.2")
READING = [
    ["list"],
    ["show", PTK],
    ["show", "taxi.idle"],
    ["show", "taxi.sped"],
    ["show", "speed"],
    ["show", GONE],
    ["versions", PTK],
    ["versions", "taxi.idle"],
    ["versions", "taxi.nothing"],
    ["versions", GONE],
    ["diff", PTK, "1", "v2"],
    ["diff", PTK, "1", "7"],
    ["budget", STREAM],
    *(["budget", STREAM, "--by", by] for by in ("line", "stream", "ptk", "team")),
    ["queue", STREAM],
    ["queue", "nowhere"],
    ["queue", STREAM, "--ended"],
    ["queue", "nowhere", "--ended"],
    ["simulate", STREAM, "--rate", "0.5", "--windows", "20"],
    ["simulate", STREAM, "--rate", "0.5", "--windows", "20", "--scheduler", "dpack", "--seed", "3"],
    ["simulate", STREAM, "--rate", "0.5", "--scheduler", "budgeting"],
    ["simulate", STREAM, "--rate", "2", "--scheduler", "budgeting", *BOUNDS],
    ["simulate", "nowhere", "--rate", "0.5"],
    ["budget", "other"],
    ["budget", "nowhere"],
    ["lineage", PTK],
    ["lineage", PTK, "--version", "1"],
    ["lineage", PTK, "--version", "9"],
    ["lineage", STREAM, "--window", "0"],
    ["lineage", STREAM, "--window", "99"],
    ["lineage", STREAM, "--from", "2020-01-01"],
    ["lineage", STREAM, "--from", "2099-01-01"],
    ["lookup", PTK, "hour=0"],
    ["lookup", f"{PTK}:speed_mean", "hour=1"],
    ["lookup", f"{PTK}:sped_mean", "hour=1"],
    ["lookup", f"{PTK}@v1:speed_mean", "hour=1"],
    ["lookup", f"{PTK}@v9:speed_mean", "hour=1"],
    ["lookup", PTK, "our=1"],
    ["lookup", "taxi.idle", "hour=1"],
    ["lookup", "taxi.nothing", "hour=1"],
    ["lookup", GONE, "hour=1"],
    ["lookup", "..:x", "hour=1"],
    ["lookup", "ptk_state:version", f"ptk={PTK}"],
    ["notices"],
    ["notices", "--team", "taxi"],
    ["notices", "--since", "2099-01-01"],
    ["subscriptions"],
    ["deliveries", "SUBSCRIPTION"],
    ["deliveries", "sub_0000000000000000"],
    ["deliveries", "sub_0"],  # cannot be an id
    ["deliveries", "a?b c"],
    ["show", "taxi.%2F"],
    ["stream", "show", "a b"],
    ["stream", "list"],
    ["stream", "show", STREAM],
    ["stream", "show", "other"],
    ["stream", "show", "nowhere"],
    ["ledger", "verify"],
    ["ledger", "verify", "--stream", STREAM],
    ["ledger", "export", "--public-key"],
    ["stream", "recommend", STREAM],
    ["stream", "recommend", "other", "--partitions", "2"],
    ["stream", "recommend", STREAM, "--partitions", "99"],
    ["stream", "recommend", "nowhere"],
    ["audit-log", "--limit", "3"],  # all of it would hold this very reading over HTTP
    ["audit-log", "--after", "2", "--limit", "2"],
    ["audit-log", "--team", "local", "--limit", "4"],
    ["audit-log", "--team", "nobody"],
    ["audit-log", "--after", "100000"],
    ["audit-log", "--from", "2020-01-01", "--limit", "2"],
    ["audit-log", "--to", "2020-01-01"],
    ["team", "list"],
    ["token", "list"],
    ["token", "list", "--team", "taxi"],
    ["token", "list", "--team", "nobody"],
    ["grant", "list"],
    ["grant", "list", "--team", "riders"],
    ["grant", "list", "--stream", STREAM],
]


@pytest.mark.long
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_it_prints_the_same_in_a_home_and_over_http(api: Api, words: list[str], form: list[str]) -> None:
    (one,) = api.world.service.subscriptions()
    words = [one.subscription.id if word == "SUBSCRIPTION" else word for word in words]
    token = api.token(*EVERY_ROLE)  # before either, as commands list tokens
    here, there = at_home(api, *words, *form), over_http(api, *words, *form, token=token)
    assert (there.exit_code, there.stdout, there.stderr) == (here.exit_code, here.stdout, here.stderr)
    assert here.stdout or here.exit_code


def test_features_are_appended_by_the_same_words(api: Api, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("hour,speed\n0,10.5\n1,20.5\n")
    written = []
    for name, ran in (("home", at_home), ("http", over_http)):
        file = tmp_path / f"{name}.parquet"
        assert ran(api, "featurize", PTK, str(tmp_path / "rows.csv"), "-o", str(file)).exit_code == 0
        written.append(file.read_bytes())
    assert written[0] == written[1]


def test_a_signed_report_comes_over_http_too(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    assert over_http(api, "ledger", "export", STREAM, "-o", str(file)).exit_code == 0
    checked = run(["ledger", "check", str(file), "--json"])
    assert checked.exit_code == 0
    assert json.loads(checked.stdout)["fault"] is None


def test_subscriptions_are_made_and_repaired_over_http(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        api.world.register()
        token = api.token(*EVERY_ROLE)

        def told(*words: str) -> str:
            result = over_http(api, *words, token=token)
            assert (result.exit_code, result.stderr) == (0, "")
            return result.stdout

        text = told("subscribe", PTK, "--endpoint", "http://127.0.0.1:9/hook")
        name = text.split()[0]
        first = f"{name} hears of every new version of {PTK}; try it by: ptk subscription test {name}"
        assert text.startswith(f"{first}\nsecret, shown this once: whsec_")
        assert text.count("\n") == 2
        assert "secret" not in told("subscribe", PTK, "--endpoint", "redis-stream:news")
        made = json.loads(told("subscribe", PTK, "--endpoint", "http://127.0.0.1:9/other", "--json"))
        assert set(made) == {"id", "ptk_id", "endpoint", "secret"}
        shown = json.loads(told("subscriptions", "--json"))
        assert {(one["team"], one["key"]) for one in shown} == {
            ("taxi", None),
            ("taxi", "ptk:events:taxi:news"),
        }
        assert made["secret"] not in told("subscriptions") + told("deliveries", made["id"])
        assert told("rotate-secret", name).startswith("secret, shown this once: whsec_")
        assert told("disable", name) == f"{name} is sent nothing after version 0\n"
        assert told("enable", name) == f"{name} is sent to again, after version 0\n"
        assert told("redeliver", name) == "0 dead letters will be sent again\n"


def test_an_officer_has_a_user_forgotten_over_http(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        api.world.stream()
        Store(api.world.service).create_stream(
            "rides",
            team="taxi",
            schema={"at": "timestamp", "rider": "string"},
            time_column="at",
            epsilon=1.0,
            privacy_unit="user-in-window",
            unit_column="rider",
        )
        api.grant("law", "rides", Role.OFFICER)
        token = api.token(Role.OFFICER, team="law")
        done = over_http(api, "forget", "rides", "u17", token=token)
        assert done.exit_code == 0
        assert "u17" not in done.stdout + done.stderr
        (line,) = [one for one in api.identity.audit_log(limit=1_000) if one.action == "stream.forget"]
        assert (line.team, line.subject, line.outcome) == ("law", "stream/rides", "done")
        unknown = over_http(api, "forget", STREAM, "u17", token=token)
        assert (unknown.exit_code, "u17" in unknown.stderr) == (2, False)
        reader = api.token(Role.CONSUMER, team="taxi")
        assert over_http(api, "forget", "rides", "u17", token=reader).exit_code == 1


def test_a_refusal_says_that_the_role_is_needed_on_all_streams(api: Api) -> None:
    api.grant("law", STREAM, Role.OFFICER)
    refused = over_http(api, "audit-log", token=api.token(Role.OFFICER, team="law"))
    assert refused.stderr.startswith(
        "not-allowed: audit.read is for officer of all streams, administrator; ask "
    )
    listed = over_http(api, "grant", "list", token=api.token(Role.OFFICER, team="law"))
    assert listed.stderr.startswith("not-allowed: grant.list is for administrator; ask ")


# what a token may see


def shown(api: Api, *words: str, team: str, roles: Sequence[Role]) -> Any:
    result = over_http(api, *words, "--json", token=api.token(*roles, team=team))
    return json.loads(result.stdout)


def test_a_consumer_of_another_team_sees_what_is_published_and_nothing_of_its_making(api: Api) -> None:
    api.grant("ads", STREAM, Role.CONSUMER)
    token = api.token(Role.CONSUMER, team="ads")
    found = json.loads(over_http(api, "show", PTK, "--json", token=token).stdout)
    assert found["newest"]["version"] == 2
    assert {name for name, value in found.items() if value is None} - {"asserted_by", "waiting"} == {
        "profile",
        "trainings",
        "notices",
    }
    text = over_http(api, "show", PTK, token=token).stdout
    assert "not for this token: profile, trainings, notices" in text
    stream = json.loads(over_http(api, "stream", "show", STREAM, "--json", token=token).stdout)
    hidden = {name for name, value in stream.items() if value is None}
    assert hidden == {"event_time_reached", "exposure", "windows", "notices"}
    assert [one["ptk"] for one in shown(api, "list", team="ads", roles=[Role.CONSUMER])] == [PTK]
    refused = over_http(api, "budget", STREAM, token=token)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        "not-allowed: budget.read is for developer, officer, administrator; ask an administrator for the role "
        "(ptk grant add), or for a token that has it (ptk token create)\n"
    )


ASKING = [
    ["show", "taxi.{}"],
    ["versions", "taxi.{}"],
    ["lookup", "taxi.{}", "hour=1"],
    ["lookup", "taxi__{}:x"],
]


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_ptk_that_was_deregistered_is_told_of_at_home_and_to_who_may_read_its_stream(
    api: Api, words: list[str]
) -> None:
    api.grant("ads", STREAM, Role.CONSUMER)
    words = [word.format("gone") for word in words]
    said = (
        f"deregistered: there is no PTK '{GONE}'; it was deregistered on {api.world.clock.now():%Y-%m-%d %H:%M} UTC; "
        "declare it and run ptk apply to bring it back\n"
    )
    for result in (
        at_home(api, *words),
        over_http(api, *words),
        over_http(api, *words, token=api.token(Role.CONSUMER, team="ads")),
    ):
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_nobody_else_hears_more_of_it_than_of_a_name_that_never_was(api: Api, words: list[str]) -> None:
    api.grant("walkers", "other", Role.DEVELOPER)  # not on the stream of the PTK
    for team in ("strangers", "walkers"):
        token = api.token(Role.DEVELOPER, team=team)
        told = []
        for name in ("gone", "gune"):
            result = over_http(api, *(word.format(name) for word in words), token=token)
            told.append((result.exit_code, result.stdout, result.stderr.replace(name, "NAME")))
        assert told[0] == told[1]
        assert told[0][2].startswith("unknown-name: there is no ")


def test_who_may_read_no_states_is_told_of_no_version(api: Api) -> None:
    api.grant("meters", STREAM, Role.PRODUCER)
    (row,) = shown(api, "list", team="meters", roles=[Role.PRODUCER])
    assert (row["ptk"], row["versions"]) == (PTK, None)


def test_a_team_without_a_role_sees_nothing(api: Api) -> None:
    assert shown(api, "list", team="strangers", roles=[Role.CONSUMER]) == []
    assert shown(api, "stream", "list", team="strangers", roles=[Role.CONSUMER]) == []
    error = shown(api, "stream", "show", STREAM, team="strangers", roles=[Role.CONSUMER])["error"]
    assert error["message"] == f"there is no stream '{STREAM}'; see: ptk stream list"


# the SDK


@pytest.fixture(params=["home", "http"])
def store(api: Api, request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "home":
        yield Store(api.world.service)
        return
    with connect(api.url, token=api.token(*EVERY_ROLE)) as store:
        yield store


def test_a_store_lists_streams_ptks_and_versions(api: Api, store: Store) -> None:
    here = Store(api.world.service)
    assert store.streams() == here.streams()
    assert [one["name"] for one in store.streams()] == ["other", STREAM]
    assert store.ptks() == here.ptks()
    assert [(one["ptk_id"], one["newest_version"]) for one in store.ptks()] == [("taxi.idle", 0), (PTK, 2)]
    assert [one["ptk_id"] for one in store.ptks(stream=STREAM, team="taxi")] == [PTK]
    assert store.versions(PTK) == here.versions(PTK)
    assert [one["version"] for one in store.versions(PTK)] == [1, 2]
    assert store.versions("taxi.idle") == []


def test_a_store_tells_of_windows_and_of_what_is_exposed(api: Api, store: Store) -> None:
    here = Store(api.world.service)
    assert store.windows(STREAM) == here.windows(STREAM)
    assert [one["window"] for one in store.windows(STREAM)] == [0, 1]
    assert store.exposure(STREAM) == here.exposure(STREAM)
    assert store.exposure(STREAM)["holds"]
    for ask in (store.windows, store.exposure):
        with pytest.raises(UnknownName, match="nowhere"):
            ask("nowhere")


# errors: one line each, with what to do


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(transport, "LONGEST_WAIT_SECONDS", 0.002)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("environment", "code", "told"),
    [
        ({"PTK_TOKEN": "ptk_wrong"}, 1, "unauthenticated: the store takes no such token"),
        (
            {"PTK_TOKEN": ""},
            2,
            "invalid-request: a remote store needs a token: ptk_...; give token=, or set PTK_TOKEN",
        ),
        *(
            (
                {"PTK_TOKEN": wrong},
                2,
                "invalid-request: the token is malformed: it is one word, ptk_ and what follows",
            )
            for wrong in ("token, shown this once: ptk_1", "ptk_1\nIt is for team ads", "ptk_1\n")
        ),
        (
            {"PTK_URL": "http://127.0.0.1:1"},
            1,
            "unavailable: no store answers at http://127.0.0.1:1: is that its address, and is its API up?",
        ),
        ({"PTK_URL": "http://ptk.example"}, 2, "invalid-request: a token goes over https only"),
        ({"PTK_URL": "not-a-url"}, 2, "invalid-request: PTK_URL"),
    ],
    ids=["wrong-token", "no-token", "sentence", "two-lines", "line-end", "away", "plain", "no-url"],
)
def test_what_is_wrong_with_a_store_elsewhere_is_one_line(
    api: Api, environment: dict[str, str], code: int, told: str
) -> None:
    given = {"PTK_URL": api.url, "PTK_TOKEN": api.token(*EVERY_ROLE), **environment}
    result = run(["list"], **given)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(told)
    assert result.stderr.count("\n") == 1


def test_an_address_that_is_no_store_is_told_as_such(api: Api) -> None:
    result = run(["list"], PTK_URL=f"{api.url}/elsewhere", PTK_TOKEN=api.token(*EVERY_ROLE))
    assert result.exit_code == 2
    assert "as no store does: is this the address of its HTTP API?" in result.stderr


def test_a_home_that_is_named_is_read_whatever_the_url(api: Api) -> None:
    home = str(api.world.service.settings.root)
    result = run(["stream", "list", "--json", "--home", home], PTK_URL="http://127.0.0.1:1")
    assert [one["stream"] for one in json.loads(result.stdout)] == ["other", STREAM]


# who may read of teams, tokens, grants and the audit trail


@pytest.mark.parametrize(
    ("words", "action", "roles"),
    [
        pytest.param(words, action, roles, id=action)
        for words, action, roles in (
            (["team", "list"], "team.list", {Role.ADMINISTRATOR}),
            (["token", "list"], "token.list", {Role.ADMINISTRATOR}),
            (["grant", "list"], "grant.list", {Role.ADMINISTRATOR}),
            (["audit-log"], "audit.read", {Role.ADMINISTRATOR, Role.OFFICER}),
            (
                ["stream", "recommend", STREAM],
                "stream.recommend",
                {Role.ADMINISTRATOR, Role.OFFICER, Role.DEVELOPER},
            ),
        )
    ],
)
def test_only_who_may_read_it_over_http_reads_it_by_a_command(
    api: Api, words: list[str], action: str, roles: set[Role]
) -> None:
    api.grant("officers", "*", Role.OFFICER)
    for role in Role:
        team = "officers" if role is Role.OFFICER else "taxi"
        result = over_http(api, *words, token=api.token(role, team=team))
        assert (result.exit_code == 0) is (role in roles), (role, result.stderr)
        if role not in roles:
            of_stream = (
                role is Role.DEVICE_GATEWAY and words[0] == "stream"
            )  # it may not even read the stream
            assert result.stdout == ""
            assert result.stderr.startswith(f"not-allowed: {'stream.read' if of_stream else action} is for ")


def test_no_secret_of_a_token_is_told(api: Api) -> None:
    text = api.token(*EVERY_ROLE)
    listed = over_http(api, "token", "list", "--json", token=text).stdout
    assert text.rpartition("_")[2] not in listed
    assert text[:20] in listed  # what is told is how its text begins


def test_the_audit_trail_comes_in_pages(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(at_home(api, "audit-log", "--json").stdout)
    assert len(whole) >= 4
    asked: list[object] = []
    send = transport.Transport.get

    def counted(self: Any, path: str, part: Any, params: Any = None) -> Any:
        asked.append(params)
        return send(self, path, part, params)

    monkeypatch.setattr(transport, "PAGE", 2)
    monkeypatch.setattr(transport.Transport, "get", counted)
    found = json.loads(over_http(api, "audit-log", "--limit", "3", "--json").stdout)
    assert (found, len(asked)) == (whole[:3], 2)


def test_what_changes_teams_and_tokens_works_in_a_home_only(api: Api) -> None:
    for words in (
        ["team", "create", "x"],
        ["token", "create", "--admin"],
        ["grant", "add", "ads", "*", "consumer"],
    ):
        result = over_http(api, *words)
        assert (result.exit_code, "works in a home only" in result.stderr) == (2, True)


# names that a shell completes


def completed(line: str, **environment: str) -> tuple[list[str], str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PTK_")}
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_PTK_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [PROGRAM],
        env={**env, **asked, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.split(), done.stderr


def patiently(line: str, **environment: str) -> tuple[list[str], str]:
    """Ask again where nothing came: on a busy machine the program gives up, so that no shell hangs."""
    answers = (completed(line, **environment) for _ in range(10))
    return next((one for one in answers if any(one)), ([], ""))


@pytest.mark.long
def test_names_behind_a_url_are_completed_by_what_the_token_may_see(api: Api) -> None:
    given = {"PTK_URL": api.url, "PTK_TOKEN": api.token(*EVERY_ROLE)}
    assert patiently("ptk show taxi.s", **given) == ([PTK], "")
    assert patiently("ptk budget ", **given) == (["other", STREAM], "")
    stranger = api.token(Role.CONSUMER, team="strangers")
    for wrong in (
        {**given, "PTK_TOKEN": stranger},
        {**given, "PTK_TOKEN": "ptk_wrong"},
        {**given, "PTK_TOKEN": ""},
        {**given, "PTK_URL": "http://127.0.0.1:1"},
        {**given, "PTK_URL": "nonsense"},
    ):
        assert completed("ptk budget ", **wrong) == ([], "")
