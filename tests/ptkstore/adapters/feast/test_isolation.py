"""What the adapter must not do: load Feast early, talk to strangers, tell values."""

import os
import shutil
import socket
import subprocess
import sys
import traceback

import pyarrow as pa
import pytest

from ptkstore.adapters.feast import FeastFeatureStore, RedisOnline, write_repo
from ptkstore.errors import CorruptObject, Unavailable

pytestmark = pytest.mark.real

VIEW = "taxi__speed_by_hour"


def test_importing_the_adapter_loads_no_vendor():
    check = (
        "import sys, ptkstore.adapters.feast as a; a.FeastFeatureStore(__import__('pathlib').Path('.'));"
        "print(sorted({'feast', 'redis', 'sqlalchemy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.long
def test_loading_feast_changes_neither_environment_nor_temporary_folder(light_repo, tmp_path):
    check = (
        "import os, sys; from pathlib import Path; from ptkstore.adapters.feast import FeastFeatureStore\n"
        "from ptkstore.errors import UnknownName\n"
        "before = dict(os.environ)\n"
        "try: FeastFeatureStore(Path(sys.argv[1])).look_up(['a__b:c'], [{'k': 1}])\n"
        "except UnknownName: print('feast' in sys.modules, dict(os.environ) == before)\n"
        "import prometheus_client.values as v; print(v.ValueClass.__name__, os.listdir(os.environ['TMPDIR']))"
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", check, str(light_repo)],
        capture_output=True,
        text=True,
        check=True,
        env={**{k: v for k, v in os.environ.items() if "PROM" not in k}, "TMPDIR": str(empty)},
    )
    assert done.stdout == "True True\nMutexValue []\n"


def test_feast_calls_nobody_but_the_stores(tmp_path, redis_online, redis_server, make):
    folder = tmp_path / "feast"
    write_repo(folder, f"sqlite:///{folder}/r.db", redis_online)
    log = tmp_path / "addresses"

    def publish() -> None:
        def note(event: str, arguments: tuple) -> None:
            if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
                with log.open("a") as file:
                    file.write(f"{arguments[1] if event == 'socket.connect' else event}\n")

        sys.addaudithook(note)
        store = FeastFeatureStore(folder)
        make.publish(store, make.state(1), make.state(2))
        store.look_up([f"{VIEW}:value"], [{"hour": 1}])
        store.withdraw("taxi.speed_by_hour")

    assert make.in_child(publish) == 0
    assert set(log.read_text().split()) == {redis_server.client_url.removeprefix("unix://")}


@pytest.mark.long
def test_an_unreachable_store_is_unavailable_and_tells_no_value(tmp_path, make):
    folder = tmp_path / "feast"
    write_repo(folder, f"sqlite:///{folder}/r.db", RedisOnline.from_url(f"unix://{tmp_path}/nobody"))
    store = FeastFeatureStore(folder)
    word = "sec" + "ret"
    table = pa.table({"k": [word], "v": [word]})
    with pytest.raises(Unavailable) as online:
        store.stage(make.state(1, tables={"t": table}, keys={"t": ("k",)}))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    write_repo(
        folder, f"postgresql://me:{word}@127.0.0.1:{port}/x", RedisOnline.from_url(f"unix://{tmp_path}/s")
    )
    with pytest.raises(Unavailable) as registry:
        FeastFeatureStore(folder).look_up([f"{VIEW}:v"], [{"k": word}])
    for raised in (online, registry):
        assert word not in "".join(traceback.format_exception(raised.value))


def test_a_damaged_registry_is_unavailable(light_repo, light_store, make):
    make.publish(light_store, make.state(1))
    light_store.close()
    (light_repo / "registry.db").write_bytes(b"no database" * 1000)
    with pytest.raises(Unavailable, match="registry does not answer"):
        light_store.look_up([f"{VIEW}:value"], [{"hour": 1}])


def test_a_damaged_history_is_told(light_repo, light_store, make):
    light_store.stage(make.state(1))
    (part,) = (light_repo / "history" / VIEW / "v00000001.parquet").iterdir()
    part.write_bytes(b"x")
    with pytest.raises(CorruptObject, match=f"{VIEW} v1"):
        light_store.flip(make.state(1))


def test_a_reader_on_postgresql_needs_no_right_to_write(tmp_path, postgres_url, redis_online, make, consumer):
    import psycopg

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write_repo(ours, postgres_url, redis_online)
    make.publish(FeastFeatureStore(ours), make.state(1))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = f"reader_{os.urandom(4).hex()}"
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'r'")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    at = postgres_url.index("@")
    write_repo(theirs, f"postgresql://{name}:r{postgres_url[at:]}", redis_online)
    features = [f"{VIEW}:value", "ptk_state:version"]
    rows = [{"hour": 8, "ptk": "taxi.speed_by_hour"}]
    answer = consumer("online", repo=str(theirs), features=features, rows=rows)
    assert (answer["value"], answer["version"]) == ([1.0], [1])


def test_a_reader_of_a_read_only_copy_of_sqlite_is_served(tmp_path, light_repo, light_store, make, consumer):
    make.publish(light_store, make.state(1), make.state(2))
    copy = tmp_path / "copy"
    shutil.copytree(light_repo, copy)
    text = (copy / "feature_store.yaml").read_text()
    read_only = text.replace(
        f"sqlite:///{light_repo}/registry.db", f"sqlite:///file:{copy}/registry.db?mode=ro&uri=true"
    )
    assert read_only != text
    (copy / "feature_store.yaml").write_text(read_only)
    before = (copy / "registry.db").read_bytes()
    answer = consumer("online", repo=str(copy), features=[f"{VIEW}:value"], rows=[{"hour": 8}])
    assert answer["value"] == [2.0]
    moment = [{"hour": 8, "event_timestamp": make.day(1.5).isoformat()}]
    assert consumer("historical", repo=str(copy), features=[f"{VIEW}:value"], rows=moment)[0]["value"] == 1.0
    assert (copy / "registry.db").read_bytes() == before


def test_history_files_are_whole_or_absent(light_repo, light_store, make):
    make.publish(light_store, *(make.state(version) for version in (1, 2)))
    history = light_repo / "history"
    names = {str(path.relative_to(history)) for path in history.rglob("*") if path.is_file()}
    folders = {version: f"{VIEW}/v0000000{version}.parquet" for version in (1, 2)}
    parts = {f"{folder}/part-00000-v0000000{version}.parquet" for version, folder in folders.items()}
    assert names == {"ptk_state/v00000000.parquet", *parts}
