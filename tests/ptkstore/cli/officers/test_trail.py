"""Whatever a command changes is in the audit trail, as done in the store's home."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow.parquet as pq
import pytest

from ptkstore.cli.commands import COMMANDS
from ptkstore.cli.lazily import load
from ptkstore.domain.audit import LOCAL, AuditEntry
from ptkstore.wiring import LocalService, Service
from ptkstore.wiring.identity import Identity
from tests.support.command_line import CREATE, Line, repository
from tests.support.older_catalogs import write_schema_3
from tests.support.receiver import WebhookReceiver
from tests.support.world import World, trips

CHANGING = {
    "team create": "team.create",
    "token create": "token.issue",
    "token rotate": "token.rotate",
    "token revoke": "token.revoke",
    "grant add": "grant.add",
    "grant remove": "grant.remove",
    "stream create": "stream.create",
    "stream add-column": "stream.evolve",
    "stream prepare": "stream.prepare",
    "ingest": "stream.ingest",
    "close": "stream.close",
    "forget": "stream.forget",
    "apply": "ptk.update",
    "set-config": "ptk.update",
    "set-target": "ptk.update",
    "rollback": "ptk.roll-back",
    "materialize": "ptk.materialize",
    "resume": "ptk.resume",
    "subscribe": "subscription.create",
    "redeliver": "subscription.redeliver",
    "subscription test": "subscription.test",
    "disable": "subscription.disable",
    "enable": "subscription.enable",
    "rotate-secret": "subscription.rotate",
    "ledger export": "ledger.export",
    "ledger recover": "ledger.recover",
    "lake garbage": "lake.clean",
    "destroy": "ptk.deregister",
    "catalog upgrade": "catalog.upgrade",
}
READING = {
    *("team list", "token list", "grant list", "audit-log", "config", "sandbox"),
    *(
        "stream list",
        "stream show",
        "stream recommend",
        "budget",
        "queue",
        "simulate",
        "ledger verify",
        "ledger person",
        "ledger check",
    ),
    *("status", "list", "show", "versions", "diff", "lineage", "lookup", "featurize", "test-privacy"),
    *(
        "plan",
        "subscriptions",
        "deliveries",
        "subscription attempts",
        "notices",
        "catalog status",
        "catalog backup",
    ),
    *("feast grant", "feast export", "device odometer"),
}
RUNNING = {
    *("up", "api", "ui", "work", "demo", "init"),
    *("device allow", "device contribute", "device simulate"),
}
"""Processes, which do what others asked for; and what writes the own files of a team, or of a device."""

BY_ITSELF = {
    *("report_alive", "work_on", "work_until_idle", "due_deliveries", "repair_online"),
    *("destroy_refused_drafts", "destroy_needless_partials"),
    *("claim_fairest", "do", "close_some_windows"),
}
"""What the service does by itself."""

NO_ACTS = {
    # reads
    *(
        "exposure",
        "streams_by_clock",
        "lost_online",
        "look_up",
        "budget",
        "verify_ledger",
        "odometers",
        "person_loss",
        "windows_spent_on",
        "queue",
        "simulate",
        "waits",
        "ended_waits",
        "streams",
        "ptks",
        "ptks_tested_on",
        "overview",
    ),
    *(
        "stream",
        "ptk",
        "windows",
        "report_key",
        "unlisted_names",
        "version",
        "newest_version",
        "online_versions",
        "budgets",
        "newest_dead_letters",
        "liveness",
        "numbers",
        "work_on_stream",
        "spends_on",
        "ledger_id",
        "takes_writes",
        "device_ptk",
        "elected_since",
        "time_line",
        "room_for_more",
        "loss_parts",
        "newest_versions",
        "newest_times",
        "assurance_on",
    ),
    *(
        "profile",
        "evaluations",
        "validations",
        "versions",
        "trace_window",
        "ptk_version",
        "diff_versions",
        "small_diff",
        "state_table",
        "due",
        "due_for_workers",
        "origin_for",
        "recommend_rows",
    ),
    "admit_ptks",
    *(
        "wait_for_version",
        "subscriptions",
        "attempts",
        "deliveries",
        "notices",
        "trainings",
        "examine_team_code",
    ),
    *BY_ITSELF,
}

ACTS = {
    name
    for base in Service.__mro__
    if base.__module__.startswith("ptkstore.wiring") and base.__name__ != "Adapters"
    for name, value in vars(base).items()
    if callable(value) and not name.startswith("_")
}
"""Every use case of the service."""


def commands() -> Iterator[str]:
    def below(group: Any, words: tuple[str, ...]) -> Iterator[str]:
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from below(command, (*words, name))
            else:
                yield " ".join((*words, name))

    for entries in COMMANDS.values():
        for name in entries:
            command = load(name)
            if hasattr(command, "commands"):
                yield from below(command, (name,))
            else:
                yield name


def test_of_every_command_it_is_known_whether_it_changes_anything() -> None:
    assert sorted(commands()) == sorted({*CHANGING, *READING, *RUNNING})


def test_of_every_use_case_it_is_known_whether_it_is_recorded() -> None:
    assert not NO_ACTS - ACTS
    recorded = {name for name in ACTS if "Action." in inspect.getsource(getattr(Service, name))}
    assert recorded == ACTS - NO_ACTS


def test_what_reads_begins_no_transaction_that_writes() -> None:
    writing = {name for name in NO_ACTS if "self.begin" in inspect.getsource(getattr(Service, name))}
    assert writing <= BY_ITSELF
    assert "repair_online" in writing


def test_a_record_is_around_the_whole_of_what_is_recorded() -> None:
    apart = {"upgrade_catalog", "garbage"}  # after it; and not of a look
    for name in ACTS - NO_ACTS - apart:
        (method,) = ast.parse(dedent(inspect.getsource(getattr(Service, name)))).body
        assert isinstance(method, ast.FunctionDef)
        *_docstring, around = method.body
        assert isinstance(around, ast.With), name
        assert ast.unparse(around.items[0].context_expr).startswith("self._recorded(Action."), name


def test_a_service_records_only_what_is_done_in_a_home(world: World) -> None:
    local, seen = LocalService(world.service.settings), Identity(world.service)
    before = list(seen.audit_log())
    world.service.materialize_ptk("taxi.speed")
    assert list(seen.audit_log()) == before
    local.materialize_ptk("taxi.speed")
    assert [one.action for one in seen.audit_log()[len(before) :]] == ["ptk.materialize"]
    local.close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "home")
    made.stream()
    made.register()
    made.publish(0)
    made.ingest([1.5])
    made.publish(2)
    return made


def test_whatever_a_command_changes_is_on_record(
    world: World, tmp_path: Path, webhook_receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTK_WEBHOOK_NETWORKS", "127.0.0.0/8")
    ptk, identity = Line(tmp_path / "home"), Identity(world.service)
    said: dict[str, Any] = {}
    config, rows = tmp_path / "config.json", tmp_path / "trips.parquet"
    config.write_text('{"epsilon": 0.2}')
    pq.write_table(trips((9.5, 9.6)), rows)
    last = 0

    def new() -> list[AuditEntry]:
        nonlocal last
        found = list(identity.audit_log(last, 100))
        last = max([last, *(one.number for one in found)])
        return found

    def words(command: str) -> tuple[list[str], int]:
        token, subscription = said.get("token create"), said.get("subscribe")
        given: Mapping[str, tuple[list[str], int]] = {
            "team create": (["ads"], 0),
            "token create": (["--team", "ads", "--scope", "consumer"], 0),
            "token rotate": ([token and token["token"]], 0),
            "token revoke": ([token and token["token"]], 0),
            "grant add": (["ads", "taxi", "consumer"], 0),
            "grant remove": (["ads", "taxi", "consumer"], 0),
            "stream create": ([word if word != "taxi" else "rides" for word in CREATE[2:]], 0),
            "stream add-column": (
                ["taxi", "tip", "float64", "--default", "0"],
                0,
            ),
            "stream prepare": (["taxi", "0"], 1),  # the window is prepared: refused, and on record
            "ingest": (["taxi", str(rows)], 0),
            "close": (["taxi", "--until", "2026-01-10"], 0),
            "forget": (["taxi", "somebody"], 1),  # the unit is the record: refused, and on record
            "apply": ([repository(tmp_path / "team", "0.15")], 0),
            "set-config": (["taxi.speed", str(config)], 0),
            "set-target": (["taxi.speed", "0.3"], 0),
            "materialize": (["taxi.speed"], 0),
            "resume": (["taxi.speed"], 1),  # it waits for nothing: refused, and on record
            "rollback": (["taxi.speed", "--to", "1"], 0),
            "subscribe": (["taxi.speed", "--endpoint", webhook_receiver.endpoint()], 0),
            "ledger export": (["taxi", "-o", str(tmp_path / "report.json")], 0),
            "ledger recover": ([], 0),
            "lake garbage": (["--delete"], 0),
            "destroy": ([str(tmp_path / "team"), "--yes"], 0),
        }
        return given.get(command, ([subscription and subscription["id"]], 0))

    new()
    for command, action in CHANGING.items():
        if command == "catalog upgrade":
            continue
        given, code = words(command)
        said[command] = ptk.json(*command.split(), *given, code=code)
        if command == "subscribe":
            webhook_receiver.trust(said[command]["secret"])  # or it would not take the test event
        found = new()
        lines = 2 if command == "subscribe" else 1  # one names the PTK, the other the subscription
        assert [one.action for one in found] == [action] * lines, command
        assert (found[0].team, found[0].token_id) == (LOCAL, LOCAL)
        assert found[0].outcome in (("refused", "conflict") if code else ("done",)), command


def test_a_mere_look_for_garbage_leaves_no_trace(world: World) -> None:
    local = LocalService(world.service.settings)
    local.garbage(timedelta(days=7))
    assert list(Identity(local).audit_log()) == []
    local.close()


def test_an_upgrade_is_on_record_afterwards(tmp_path: Path) -> None:
    write_schema_3(f"sqlite:///{tmp_path / 'home' / 'catalog.db'}")
    ptk = Line(tmp_path / "home")
    for _ in range(2):
        ptk.run("catalog", "upgrade")
    (one,) = [one for one in ptk.json("audit-log") if one["action"] == "catalog.upgrade"]
    assert (one["action"], one["subject"], one["team"], one["outcome"]) == (
        "catalog.upgrade",
        "store",
        "local",
        "done",
    )
