"""A consumer in a virtual environment of its own, with `feast[redis]` from the package index and nothing of ours."""

import json
import shutil
import subprocess

import pytest

from ptkstore.adapters.feast import FeastFeatureStore, write_repo
from tests.support.feast_environment import installed, python
from tests.support.feast_rows import telling

__all__ = ["installed", "python"]

pytestmark = pytest.mark.real

VIEW = "taxi__speed_by_hour"


@pytest.mark.long
@pytest.mark.parametrize(("ci", "ends"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_its_environment_a_consumer_is_skipped_but_fails_where_it_must_be_tested(
    repository, tmp_path, monkeypatch, ci, ends
):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(
        (pytest.skip.Exception, pytest.fail.Exception), match=r"needs feast\[redis\]: "
    ) as ended:
        installed(repository, tmp_path / "venv")
    assert ended.type is ends


@pytest.mark.long
def test_a_consumer_with_feast_alone_is_served(repository, python, tmp_path, redis_online, make, filled):
    folder = tmp_path / "feast"
    write_repo(folder, f"sqlite:///{folder}/registry.db", redis_online)
    store = FeastFeatureStore(folder)
    make.publish(store, make.state(1), make.state(2))
    make.publish(store, filled(1, {"defaults": {"value": -1.0}}, ptk_id="ads.clicks"))
    make.publish(store, telling(make.state(3, ptk_id="ads.axes")))
    store.close()
    theirs = tmp_path / "theirs"  # what they were given: the repository's folder and the example
    shutil.copytree(folder, theirs)
    shutil.copy(repository / "examples" / "feast_consumer" / "look_up.py", theirs / "look_up.py")
    ask = [
        {"features": [f"{VIEW}:value", f"{VIEW}:ptk_version"], "entities": [{"hour": 8}, {"hour": 99}]},
        {"features": [f"{VIEW}@v1:value"], "entities": [{"hour": 8}]},
        {"features": ["ptk_state:version"], "entities": [{"ptk": "taxi.speed_by_hour"}]},
        {"features": ["ads__clicks__filled:value_filled"], "entities": [{"hour": 7}, {"hour": 99}]},
        {"features": ["ads__axes__computed:p_0"], "entities": [{"a": 1.0}, {"a": None}, {"a": 2.0}]},
    ]
    look_up = [str(python), "-I", str(theirs / "look_up.py"), str(theirs)]
    done = subprocess.run(
        look_up, input=json.dumps(ask), capture_output=True, text=True, cwd=tmp_path, env={}, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    newest, pinned, state, stood_in, computed = json.loads(done.stdout)
    assert newest == {"hour": [8, 99], "value": [2.0, None], "ptk_version": [2, None]}
    assert pinned == {"hour": [8], "value": [1.0]}
    assert state["version"] == [2]
    assert stood_in["value_filled"] == [1.0, -1.0]
    assert computed["p_0"] == [3.0, 0.0, 6.0]
    ours = (
        "import importlib.util as u; print([n for n in ('ptkstore', 'ptklib', 'workers') if u.find_spec(n)])"
    )
    found = subprocess.run(
        [str(python), "-I", "-c", ours], capture_output=True, text=True, check=True, env={}
    )
    assert found.stdout == "[]\n"
