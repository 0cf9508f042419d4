"""Team code in the store: what is registered, what is spent, what is published, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ptkstore.application.ingest.ingest_records import IngestReply
from ptkstore.domain.accounting.assurances import Assurance, Assured
from ptkstore.domain.jobs import JobState, Outcome
from ptkstore.domain.ptks.bundles import bundle_path, pack, sha256_of
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.domain.streams.policies import PrivacyUnit
from ptkstore.errors import (
    CorruptObject,
    InvalidRequest,
    LateWriter,
    NoSandbox,
    OutcomeUnknown,
    PtkRejected,
    Unavailable,
    UnknownName,
)
from ptkstore.ports.row_processes import RunFailed
from ptkstore.ports.team_code import Finding
from tests.support.cases import case
from tests.support.team_code import GOOD, Inspector, bundle_with, described
from tests.support.world import DAY, ORIGIN, World, speed, trips

JOB = "train/taxi.trips/0"


@pytest.fixture
def inspector(world: World) -> Inspector:
    made = Inspector()
    world.service.__dict__["sandbox"] = made
    return made


@pytest.fixture
def accepting(world: World, inspector: Inspector) -> World:
    """A world with another stream, whose policy accepts asserted PTKs."""
    world.stream("open", minimum_assurance=Assurance.ASSERTED)
    return world


def register(world: World, code: str = GOOD, stream: str = "open", **changes: Any) -> str:
    bundle = bundle_with(code)
    world.service.put_bundle(bundle, team="taxi")
    return world.register("trips", stream=stream, estimator=described(bundle, **changes))


def ingest(world: World) -> IngestReply:
    return world.service.ingest("open", trips((0.5, 0.6)))


def test_asserted_code_is_refused_where_the_policy_wants_more(world: World, inspector: Inspector) -> None:
    with pytest.raises(PtkRejected, match="assurance 'asserted' is below the stream's least, 'library'"):
        register(world, stream="taxi")
    assert inspector.examined == []  # not even tried
    assert world.service.ptks() == ()


def test_what_team_code_has_spent_stays_a_teams_word_when_the_ptk_is_the_librarys(accepting: World) -> None:
    register(accepting)
    ingest(accepting)
    accepting.service.close_windows("open", ORIGIN + DAY)
    accepting.work()
    accepting.service.update_ptk("taxi.trips", estimator=speed())
    accepting.service.ingest("open", trips((1.5, 1.6)))
    accepting.service.close_windows("open", ORIGIN + 2 * DAY)
    accepting.work()
    newest = accepting.service.versions("taxi.trips")[-1]
    assert newest.content["guarantee"]["assurance"] == "library"
    assert accepting.service.odometers("open").assured == Assured(Assurance.ASSERTED, "taxi")


def test_registered_code_is_asserted_and_its_loss_is_known_by_epsilon_alone(accepting: World) -> None:
    register(accepting)
    (spec,) = accepting.service.ptks()
    assert (spec.assurance, spec.family) == (Assurance.ASSERTED, "TeamCode")
    assert spec.event == {"name": "EpsilonDelta", "epsilon": 0.1, "delta": 0.0}
    assert spec.tables == {"hours": {"keys": ["hour"], "columns": [["hour", "int64"], ["trips", "int64"]]}}


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"t": {"keys": ["x"], "columns": [["x", "float64"]]}}, "join key 'x' of table 't' has type double"),
        ({"t": {"keys": [], "columns": [["ptk", "int64"]]}}, "table 't' has no join keys"),
        ({"t": {"keys": ["x"], "columns": [["x", "int64"]], "rows": 0}}, "rows of table 't'"),
        (
            {"t": {"keys": ["x"], "columns": [["x", "int64"]], "lines": 1}},
            "exactly the fields keys and columns",
        ),
    ],
)
def test_tables_that_could_never_be_served_are_refused_at_registration(
    accepting: World, tables: dict[str, Any], reason: str
) -> None:
    bundle = bundle_with(GOOD)
    accepting.service.put_bundle(bundle, team="taxi")
    estimator = {**described(bundle), "params": {**described(bundle)["params"], "tables": tables}}
    with pytest.raises(InvalidRequest, match=reason):
        accepting.register("trips", stream="open", estimator=estimator)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"columns": ["hour", "zone"]}, "columns"),
        ({"tables": {}}, "tables"),
        ({"epsilon": 0.2}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "0.1"}, "epsilon"),
        ({"delta": True}, "delta"),
        ({"unit": "zone"}, "unit"),
        ({"max_rows_per_unit": None}, "max_rows_per_unit"),
        ({"selected": ["hours"]}, "selected"),
    ],
)
def test_code_that_says_something_else_than_its_declaration_is_refused(
    accepting: World, inspector: Inspector, said: dict[str, Any], named: str
) -> None:
    inspector.said = said
    with pytest.raises(PtkRejected, match=f"something else than its declaration of {named}"):
        register(accepting)


def test_code_that_fails_a_check_is_refused_with_what_synthetic_rows_showed(
    accepting: World, inspector: Inspector
) -> None:
    inspector.findings = (Finding("loads", "passed"), Finding("check_noise_is_drawn", "failed", "no noise"))
    with pytest.raises(PtkRejected, match="check_noise_is_drawn: no noise"):
        register(accepting)
    assert accepting.service.ptks() == ()


WORDS: dict[str, Any] = {"words": {"keys": [], "columns": [["word", "string"]]}}
BY_HOUR: dict[str, Any] = {"hours": {"keys": ["hour"], "columns": [["hour", "int64"], ["trips", "int64"]]}}


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        (WORDS, r"words\.word are"),
        (BY_HOUR, r"hours\.hour are"),
        ({**WORDS, **BY_HOUR}, r"words\.word, hours\.hour"),
    ],
)
def test_texts_and_keys_that_nobody_declared_are_refused_with_what_to_declare(
    accepting: World, inspector: Inspector, tables: dict[str, Any], named: str
) -> None:
    with pytest.raises(PtkRejected, match=named + r'.* keys or texts without declared values.*"domains": \{'):
        register(accepting, tables=tables)
    assert inspector.examined == []
    assert accepting.service.ptks() == ()
    accepting.stream("free", minimum_assurance=Assurance.ASSERTED, asserted_text=True)
    register(accepting, stream="free", tables=tables)
    assert len(inspector.examined) == 1


def test_numbers_and_booleans_need_no_declared_values(accepting: World) -> None:
    form = {"keys": ["rush"], "columns": [["rush", "bool"], ["trips", "int64"], ["share", "float64"]]}
    register(accepting, tables={"hours": form})


def test_declared_values_that_cannot_be_used_are_refused(accepting: World) -> None:
    for column, kind, domain, reason in [
        ("hour", "int64", ["a"], "holds string, the column has type int64"),
        ("hour", "int64", [], "at least one value"),
        ("hour", "int64", [1, 1], "repeats a value"),
        ("hour", "int64", {"first": 3, "last": 2}, "1 to 16777216 integers"),
        ("hour", "int64", {"first": 0, "last": 2**62}, "1 to 16777216 integers"),
        ("hour", "int64", {"first": 0}, "from 'first' to 'last'"),
        ("hour", "int64", {"first": False, "last": 3}, "from 'first' to 'last'"),
        ("hour", "string", {"first": 0, "last": 3}, "holds int64, the column has type string"),
        ("hour", "string", "abc", "must be a sequence of values"),
        ("hour", "string", ["x" * 1025], "more than 1024 bytes"),
        ("hour", "string", ["a\x1b[2J"], r"U\+001B"),
        ("trips", "int64", ["a"], "holds string"),
        ("zone", "int64", ["a"], "'zone', which it has not"),
        ("share", "int64", [0.5], "numbers, which are not declared"),
    ]:
        with case(str((column, kind, reason))):
            columns = [["hour", kind], ["trips", "int64"], ["share", "float64"]]
            tables = {"hours": {"keys": ["hour"], "columns": columns, "domains": {column: domain}}}
            bundle = bundle_with(GOOD)
            accepting.service.put_bundle(bundle, team="taxi")
            estimator = {**described(bundle), "params": {**described(bundle)["params"], "tables": tables}}
            with pytest.raises(InvalidRequest, match=reason):
                accepting.register("trips", stream="open", estimator=estimator)


@pytest.mark.long
def test_what_was_registered_before_values_were_declared_goes_on_until_it_changes(
    accepting: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_before = {"tables": BY_HOUR, "noise_names": None}
    with monkeypatch.context() as before:
        before.setattr("ptkstore.application.ptks.team_code.check_declared", lambda *_: None)
        ptk_id = register(accepting, **of_before)
    assert register(accepting, **of_before) == ptk_id  # whoever asks again, hears the same
    known = accepting.service.ptks()[0].estimator
    accepting.service.update_ptk(ptk_id, estimator=known, target=0.2)
    (wanted,) = (WantedPtk("trips", {"estimator": known, "target": 0.3}),)
    asked: dict[str, Any] = {"team": "taxi", "stream": "open", "wanted": [wanted]}
    assert not accepting.service.admit_ptks(**asked).refusals
    accepting.service.exchange_ptks(**asked)
    trained(accepting)
    assert accepting.job(JOB).outcome is Outcome.PUBLISHED
    changed = bundle_with(GOOD + "# changed\n")
    accepting.service.put_bundle(changed, team="taxi")
    other = described(changed, **of_before)
    with pytest.raises(PtkRejected, match="without declared values"):
        accepting.service.update_ptk(ptk_id, estimator=other)
    asked["wanted"] = [WantedPtk("trips", {"estimator": other, "target": 0.3})]
    (refused,) = accepting.service.admit_ptks(**asked).refusals.values()
    assert "without declared values" in str(refused)
    with pytest.raises(PtkRejected, match="without declared values"):
        accepting.service.exchange_ptks(**asked)
    with pytest.raises(PtkRejected, match="noise_names"):
        accepting.service.update_ptk(ptk_id, estimator=described(changed, noise_names=None))
    accepting.service.update_ptk(ptk_id, estimator=described(changed))


def test_code_is_examined_again_only_when_it_changes(accepting: World, inspector: Inspector) -> None:
    ptk_id = register(accepting)
    accepting.service.update_ptk(ptk_id, target=0.2)
    known = accepting.service.ptks()[0].estimator
    accepting.service.update_ptk(ptk_id, estimator=known)
    assert len(inspector.examined) == 1
    changed = bundle_with(GOOD + "# changed\n")
    accepting.service.put_bundle(changed, team="taxi")
    accepting.service.update_ptk(ptk_id, estimator=described(changed))
    assert len(inspector.examined) == 2
    inspector.findings = (Finding("loads", "failed", "x"),)
    with pytest.raises(PtkRejected):
        accepting.service.update_ptk(ptk_id, estimator=known)
    assert accepting.service.ptks()[0].estimator == described(changed)


def test_code_that_did_not_change_is_kept_again_by_an_update(accepting: World) -> None:
    ptk_id = register(accepting)
    known = accepting.service.ptks()[0].estimator
    bundles, bundle = accepting.service.bundles, bundle_with(GOOD)
    stored = bundle_path(sha256_of(bundle))
    get = bundles.get

    def goes(sha256: str) -> bytes:
        content = get(sha256)
        bundles.__dict__.pop("get", None)
        accepting.service.lake.remove(stored)
        return content

    bundles.__dict__["get"] = goes
    accepting.service.update_ptk(ptk_id, estimator=known)
    assert bundles.get(sha256_of(bundle)) == bundle
    accepting.service.lake.remove(stored)
    with pytest.raises(InvalidRequest, match="upload it first"):
        accepting.service.update_ptk(ptk_id, estimator=known, target=0.3)
    accepting.service.update_ptk(ptk_id, target=0.2)  # nothing is said of its code
    assert accepting.service.ptks()[0].target == 0.2


@pytest.mark.parametrize("error", [UnknownName("bundle", "x"), Unavailable("busy"), OSError("full")])
def test_a_store_that_fails_after_a_registration_is_asked_again_and_then_told_apart_from_a_refusal(
    accepting: World, error: Exception
) -> None:
    bundles, bundle = accepting.service.bundles, bundle_with(GOOD)
    accepting.service.put_bundle(bundle, team="taxi")
    put, failures = bundles.put, [error]

    def failing(content: bytes) -> str:
        if failures:
            raise failures.pop()
        return put(content)

    bundles.__dict__["put"] = failing
    ptk_id = accepting.register("trips", stream="open", estimator=described(bundle))
    assert failures == []
    failures += [error, error]
    with pytest.raises(OutcomeUnknown, match=r"PTK taxi\.more is registered as asked"):
        accepting.register("more", stream="open", estimator=described(bundle))
    assert {spec.ptk_id for spec in accepting.service.ptks()} == {ptk_id, "taxi.more"}


def test_where_there_is_no_sandbox_asserted_code_is_refused(accepting: World, inspector: Inspector) -> None:
    inspector.works = False
    with pytest.raises(NoSandbox):
        register(accepting)
    assert accepting.service.ptks() == ()


def test_a_bundle_that_nobody_uploaded_is_named(accepting: World) -> None:
    with pytest.raises(InvalidRequest, match="upload it first"):
        accepting.register("trips", stream="open", estimator=described(bundle_with(GOOD)))


def test_a_loss_towards_users_needs_a_unit_that_covers_the_streams(accepting: World) -> None:
    accepting.stream(
        "people",
        minimum_assurance=Assurance.ASSERTED,
        privacy_unit=PrivacyUnit.USER_IN_WINDOW,
        unit_column="zone",
        max_rows_per_unit=3,
    )
    bundle = bundle_with(GOOD)
    accepting.service.put_bundle(bundle, team="taxi")
    for unit in ({}, {"unit": "hour", "max_rows_per_unit": 3}, {"unit": "zone", "max_rows_per_unit": 2}):
        with pytest.raises(InvalidRequest, match="must cover them all"):
            accepting.register("trips", stream="people", estimator=described(bundle, **unit))
    covering = described(bundle, unit="zone", max_rows_per_unit=3)
    accepting.register("trips", stream="people", estimator=covering)


def test_a_bundle_is_taken_only_under_its_own_name_and_repeatedly(world: World) -> None:
    bundle = bundle_with(GOOD)
    name = world.service.put_bundle(bundle, team="taxi")
    assert world.service.put_bundle(bundle, name, team="taxi") == name
    assert world.service.bundles.get(name) == bundle
    for content, wrong in (
        (bundle, "0" * 64),
        (bundle, "../x"),
        (b"no bundle", None),
        (bundle + bytes(512), None),
    ):
        with pytest.raises(InvalidRequest):
            world.service.put_bundle(content, wrong, team="taxi")
    with pytest.raises(UnknownName):
        world.service.bundles.get("0" * 64)


# trainings


def trained(world: World) -> None:
    ingest(world)
    world.service.close_windows("open", ORIGIN + DAY)
    world.work()


def spent(world: World) -> tuple[int, int]:
    block = next(b for b in world.service.budget("open") if b.number == 2)
    return block.reserved.epsilon_nano, block.spent.epsilon_nano


def notices(world: World) -> list[tuple[str, str]]:
    return [(subject, code) for subject, code in world.notices() if "trips" in subject]


def test_a_failed_run_keeps_its_charge_and_is_not_run_again(accepting: World) -> None:
    register(accepting)
    accepting.trainer.failing = RunFailed("team-code-failed")
    trained(accepting)
    job = accepting.job(JOB)
    assert (job.state, job.outcome) == (JobState.ENDED, Outcome.FAILED)
    assert len(accepting.trainer.requests) == 1
    assert spent(accepting) == (0, 100_000_000)
    assert notices(accepting) == [("taxi.trips window 0", "team-code-failed")]
    assert accepting.service.versions("taxi.trips") == ()


def test_a_lost_lease_ends_the_reservation_of_team_code(accepting: World) -> None:
    register(accepting)

    class Died(Exception):
        pass

    def die() -> None:
        raise Died

    accepting.trainer.meanwhile = die
    with pytest.raises(Died):
        trained(accepting)
    accepting.clock.pass_(hours=1)
    accepting.work()
    job = accepting.job(JOB)
    assert (job.state, job.outcome) == (JobState.ENDED, Outcome.FAILED)
    assert len(accepting.trainer.requests) == 1
    assert spent(accepting) == (0, 100_000_000)


def test_without_a_sandbox_nothing_is_spent_and_another_worker_may_train(
    accepting: World, inspector: Inspector
) -> None:
    register(accepting)
    inspector.works = False
    with pytest.raises(NoSandbox):
        trained(accepting)
    assert spent(accepting) == (100_000_000, 0)
    assert accepting.trainer.requests == []
    assert accepting.job(JOB).state is JobState.READY
    inspector.works = True
    accepting.trainer.failing = RunFailed("team-code-failed")
    accepting.clock.pass_(hours=1)
    accepting.work()
    assert len(accepting.trainer.requests) == 1


def test_a_training_gets_the_code_that_was_registered(accepting: World) -> None:
    register(accepting)
    accepting.trainer.failing = RunFailed("team-code-failed")
    trained(accepting)
    (request,) = accepting.trainer.requests
    assert request.bundle == bundle_with(GOOD)
    assert json.dumps(request.estimator)  # plain data


def test_code_that_changes_between_look_and_spend_is_not_paid_for(accepting: World) -> None:
    ptk_id = register(accepting)
    changed = bundle_with(GOOD + "# changed\n")
    accepting.service.put_bundle(changed, team="taxi")
    read = accepting.service.bundles.get

    def change_meanwhile(sha256: str) -> bytes:
        content = read(sha256)
        accepting.service.bundles.__dict__.pop("get", None)
        accepting.service.update_ptk(ptk_id, estimator=described(changed))
        return content

    ingest(accepting)
    accepting.service.close_windows("open", ORIGIN + DAY)
    accepting.work("prepare", "allocate")
    accepting.service.bundles.__dict__["get"] = change_meanwhile
    with pytest.raises(LateWriter, match="other code"):
        accepting.work("train")
    assert spent(accepting) == (100_000_000, 0)


def test_a_bundle_in_the_lake_that_was_changed_is_not_run(accepting: World) -> None:
    register(accepting)
    (stored,) = (accepting.service.settings.root / "lake" / "bundles").glob("*.tar")
    stored.chmod(0o644)
    stored.write_bytes(pack({"own.py": b"import evil\n"}))
    with pytest.raises(CorruptObject, match="not what was stored"):
        trained(accepting)
    assert spent(accepting) == (100_000_000, 0)
