"""`feast serve`, started for real: the newest and pinned versions, feature services, declared defaults."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from ptkstore.adapters.feast import FeastFeatureStore, write_repo
from tests.ptkstore.adapters.feast.conftest import die_with_parent

pytestmark = pytest.mark.real

VIEW = "taxi__speed_by_hour"
FILLED = f"{VIEW}__filled"
READY_WITHIN_SECONDS = 240.0


@contextmanager
def serving(repo: Path, log: Path) -> Iterator[str]:
    """The address of a feature server on a repository."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    feast = Path(sys.executable).with_name("feast")
    command = [str(feast), "--chdir", str(repo), "serve", "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "FEAST_USAGE": "False"}
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, stdout=out, stderr=out, env=env, start_new_session=True, preexec_fn=die_with_parent
        )
    try:
        until = time.monotonic() + READY_WITHIN_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30).close()
                break
            except OSError:
                assert server.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < until, "the feature server does not answer"
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def ask(server: str, **body: object) -> dict[str, list]:
    request = urllib.request.Request(
        f"{server}/get-online-features", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        content = json.loads(answer.read())
    return {
        name: result["values"]
        for name, result in zip(content["metadata"]["feature_names"], content["results"], strict=True)
    }


@pytest.mark.long
@pytest.mark.parametrize("online", ["packed_online", pytest.param("redis_online", marks=pytest.mark.soak)])
def test_the_feature_server_answers_newest_pinned_together_and_filled(
    request, tmp_path, make, filled, online
):
    repo = tmp_path / "feast"
    write_repo(repo, f"sqlite:///{repo}/registry.db", request.getfixturevalue(online), cache_ttl_seconds=1)
    store = FeastFeatureStore(repo)
    declared = {"defaults": {"value": -1.0}}
    make.publish(store, filled(1, declared), filled(2, declared))
    hours = {"hour": [7, 99]}
    with serving(repo, tmp_path / "log") as server:
        newest = ask(server, features=[f"{VIEW}:value", f"{VIEW}:ptk_version"], entities=hours)
        assert (newest["value"], newest["ptk_version"]) == ([2.0, None], [2, None])
        assert ask(server, features=[f"{VIEW}@v1:value"], entities=hours)["value"] == [1.0, None]
        together = ask(server, feature_service=VIEW, entities=hours)
        assert (together["value"], together["ptk_version"]) == ([2.0, None], [2, None])
        stood_in = ask(server, features=[f"{FILLED}:value_filled"], entities=hours)
        assert stood_in["value_filled"] == [2.0, -1.0]
        make.publish(store, filled(3, declared))
        until = time.monotonic() + 120  # the server renews what it knows of the registry every second
        while ask(server, features=[f"{VIEW}:ptk_version"], entities=hours)["ptk_version"] != [3, None]:
            assert time.monotonic() < until
            time.sleep(0.1)
    store.close()


def test_a_feature_service_answers_all_tables_of_one_version(repo, store, make, consumer):
    def state(version: int):
        tables = {name: pa.table({"k": ["x"], name: [float(version)]}) for name in ("means", "counts")}
        return make.state(version, tables=tables, keys=dict.fromkeys(tables, ("k",)))

    for version in (1, 2):
        make.publish(store, state(version))
        answer = consumer("service", repo=str(repo), name=VIEW, rows=[{"k": "x"}, {"k": "y"}])
        assert answer[f"{VIEW}__means@v{version}__means"] == [float(version), None]
        assert answer[f"{VIEW}__counts@v{version}__counts"] == [float(version), None]
    store.withdraw("taxi.speed_by_hour")
    assert (
        consumer.error("service", repo=str(repo), name=VIEW, rows=[{"k": "x"}])
        == "FeatureServiceNotFoundException"
    )
