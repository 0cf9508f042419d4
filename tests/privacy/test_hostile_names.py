"""Names, ids and addresses made to escape: refused with a reason, nothing written, or stored as the text they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ptkstore
from ptklib import HistoricalStatistics
from ptkstore.errors import InvalidRequest, NameTaken, PtkStoreError, UnknownName
from ptkstore.sdk import Store
from tests.faults import scenario
from tests.support.local import local

NAMES = [
    "",
    ".",
    "..",
    "../x",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a.b",
    "a b",
    "a\0b",
    "a\nb",
    "a\n",
    "~root",
    "$(id)",
    "`id`",
    "%2e%2e",
    "x'; DROP TABLE stream; --",
    'x" OR "1"="1',
    "a__b",
    "A",
    "1a",
    "ä",
    "\u0430bc",  # a Cyrillic a
    "\u202eabc",
    "a" * 64,
]
ENDPOINTS = [
    "",
    "x",
    "//127.0.0.1/x",
    "file:///etc/passwd",
    "ftp://127.0.0.1/x",
    "javascript:alert(1)",
    "http://",
    "http://127.0.0.1:9/x",
    "http://localhost:9/x",
    "http://127.1/x",
    "http://0x7f000001/x",
    "http://2130706433/x",
    "http://[::1]/x",
    "http://[::ffff:127.0.0.1]/x",
    "http://169.254.169.254/latest/meta-data",
    "https://10.0.0.1/x",
    "https://127.0.0.1:99999/x",
    "https://user:word@127.0.0.1/x",
    "https://127.0.0.1/x\r\nhost: y",
    "https://exa mple.org/x",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with ptkstore.connect(tmp_path_factory.mktemp("hostile") / "home") as made:
        scenario.create_stream(made)
        scenario.register(made, [scenario.LONG])
        made.ingest(scenario.STREAM, scenario.rows(0), "first")
        assert local(made).feast_repo.is_dir()  # written at first use
        yield made


@pytest.fixture
def untouched(store: Store) -> Iterator[None]:
    """The test changes no file beside the catalog's own, neither in the home nor around it, and no row."""
    before = (files(store), rows_of_catalog(store))
    yield
    assert (files(store), rows_of_catalog(store)) == before


def files(store: Store) -> set[Path]:
    around = local(store).settings.root.parent
    return {path for path in around.rglob("*") if not path.name.startswith("catalog.db")}


def rows_of_catalog(store: Store) -> tuple[object, ...]:
    service = local(store)
    with service.begin() as uow:
        return (uow.streams.all(), uow.ptks.find(), uow.jobs.find(), uow.subscriptions.of())


def new_stream(store: Store, **changed: object) -> None:
    given = {
        "name": "other",
        "team": "team",
        "schema": {"at": "timestamp", "x": "int64"},
        "time_column": "at",
        "epsilon": 1.0,
    } | changed
    store.create_stream(given.pop("name"), **given)  # type: ignore[arg-type]


def new_ptk(store: Store, **changed: object) -> None:
    estimator = HistoricalStatistics(["hour"], ["speed"], domains={"hour": [0]}, bounds=(0, 60), epsilon=0.1)
    given = {"name": "other", "stream": scenario.STREAM, "target": 0.5} | changed
    store.register_ptk(estimator, **given)  # type: ignore[arg-type]


USES: dict[str, Callable[[Store, str], object]] = {
    "stream": lambda store, name: new_stream(store, name=name),
    "stream's team": lambda store, name: new_stream(store, team=name),
    "column": lambda store, name: new_stream(store, schema={"at": "timestamp", name: "int64"}),
    "time column": lambda store, name: new_stream(store, schema={name: "timestamp"}, time_column=name),
    "PTK": lambda store, name: new_ptk(store, name=name),
    "PTK's team": lambda store, name: new_ptk(store, team=name) if name else new_ptk(store, name=name),
    "PTK's stream": lambda store, name: new_ptk(store, stream=name),
    "ingest": lambda store, name: store.ingest(name, scenario.rows(0)),
    "close": lambda store, name: store.close_windows(name),
    "budget": lambda store, name: store.budget(name),
    "ledger": lambda store, name: local(store).verify_ledger(name),
    "queue": lambda store, name: store.queue(name),
    "ended waits": lambda store, name: store.queue(name, ended=True),
    "simulate": lambda store, name: store.simulate(name, rate=1),
    "odometers": lambda store, name: store.odometers(name),
    "person's loss": lambda store, name: store.person_loss([name]),
    "report": lambda store, name: store.export_ledger(name),
    "state": lambda store, name: store.ptk(name),
    "state of a version": lambda store, name: store.ptk(name, 1),
    "state of a team": lambda store, name: store.ptk(f"{name}.x", 1),
    "withdraw": lambda store, name: store.deregister_ptk(name),
    "subscribe": lambda store, name: store.subscribe_to_ptk(name, "https://127.0.0.1/x"),
    "unsubscribe": lambda store, name: store.unsubscribe(name),
    "notify": lambda store, name: store.notify_new_ptk_state(name),
    "configure": lambda store, name: store.update_ptk_config(name, {"epsilon": 0.1}),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.usefixtures("untouched")
def test_a_hostile_name_is_refused_and_leaves_nothing(store: Store, use: str):
    assert {name: told for name in NAMES if not (told := refusal_of(store, use, name))} == {}


def refusal_of(store: Store, use: str, name: str) -> str | None:
    """What is said of the name; None if it is taken."""
    try:
        USES[use](store, name)
    except InvalidRequest as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=repr)
@pytest.mark.usefixtures("untouched")
def test_a_hostile_endpoint_is_refused_and_leaves_no_secret(store: Store, endpoint: str):
    with pytest.raises(InvalidRequest):
        store.subscribe_to_ptk(scenario.LONG, endpoint)


@pytest.mark.parametrize("batch", ["", "a\0b", "a\nb", "a\u202eb", "b" * 201], ids=repr)
@pytest.mark.usefixtures("untouched")
def test_a_batch_id_that_cannot_be_printed_is_refused(store: Store, batch: str):
    with pytest.raises(InvalidRequest):
        store.ingest(scenario.STREAM, scenario.rows(0), batch)


@pytest.mark.parametrize(
    "batch", ["../../x", "/etc/passwd", "x'; DROP TABLE batch; --", '" OR 1=1', "..", "b" * 200], ids=repr
)
def test_any_printable_batch_id_is_text_and_names_no_file(store: Store, batch: str):
    before = files(store)
    accepted = store.ingest(scenario.STREAM, scenario.rows(0, n=3), batch)
    assert (accepted.accepted, accepted.repeated) == (3, False)
    assert store.ingest(scenario.STREAM, scenario.rows(0, n=3), batch).repeated
    [made] = files(store) - before
    assert made.parent == local(store).settings.root / "raw" / scenario.STREAM / "0" / "batches"
    assert made.stem.isalnum()


@pytest.mark.parametrize("reference", ["../x:y", "x", "", "ptk_state:", ":x", "a@v1", "x'; --:y"], ids=repr)
def test_a_hostile_feature_reference_is_refused(store: Store, reference: str):
    with pytest.raises(PtkStoreError):
        store.look_up([reference], [{"hour": 1}])


def test_a_version_that_is_no_number_is_refused(store: Store):
    for version in (0, -1, 10**9, True):
        with pytest.raises((UnknownName, InvalidRequest)):
            store.ptk(scenario.LONG, version)


@pytest.mark.usefixtures("untouched")
def test_a_name_taken_by_another_ptk_is_a_conflict_that_tells_which(store: Store):
    scenario.register(store, [scenario.LONG])  # the same once more is the first answer, not a conflict
    with pytest.raises(NameTaken, match=scenario.LONG):
        new_ptk(store, name=scenario.LONG.partition(".")[2])
