"""A consumer as any team has one: Feast, a repository's folder, nothing of ours. Talks JSON lines.

With `--marked` it reads many repositories, and online and historical rows in turns, which Feast 0.67 mixes up unless
its copies of registries are marked; without, Feast is as it was installed.
"""

import asyncio
import itertools
import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import pandas as pd  # noqa: E402
from feast import FeatureStore  # noqa: E402

stores: dict[str, FeatureStore] = {}
numbers = itertools.count()


def store(repo: str) -> FeatureStore:
    if repo not in stores:
        stores[repo] = FeatureStore(repo_path=repo)
        if "--marked" in sys.argv:
            _mark_copies(stores[repo].registry)
    return stores[repo]


def _mark_copies(registry: Any) -> None:
    """Number the copies of a registry: Feast knows them by address, and a process with many stores meets one again."""
    read = registry.proto

    def marked() -> Any:
        copy = read()
        copy.version_id = str(next(numbers))
        return copy

    registry.proto = marked


def online(repo: str, features: list[str], rows: list[dict], refresh: bool = True) -> dict:
    if refresh:
        store(repo).refresh_registry()
    return store(repo).get_online_features(features=features, entity_rows=rows).to_dict()


def online_asynchronously(repo: str, features: list[str], rows: list[dict]) -> dict:
    async def ask() -> dict:
        await store(repo).initialize()
        found = await store(repo).get_online_features_async(features=features, entity_rows=rows)
        await store(repo).close()
        return found.to_dict()

    return asyncio.run(ask())


def write(repo: str, view: str, row: dict) -> None:
    now = pd.Timestamp.now(tz="UTC")
    times = {"ptk_as_of": now, "ptk_published_at": now}
    store(repo).write_to_online_store(view, pd.DataFrame([{**row, **times}]))


def historical(repo: str, features: list[str], rows: list[dict]) -> list[dict]:
    store(repo).refresh_registry()
    entities = pd.DataFrame(rows)
    entities["event_timestamp"] = pd.to_datetime(entities["event_timestamp"], utc=True)
    frame = store(repo).get_historical_features(entity_df=entities, features=features).to_df()
    return json.loads(frame.sort_values(list(entities.columns)).to_json(orient="records", date_format="iso"))


def service(repo: str, name: str, rows: list[dict]) -> dict:
    store(repo).refresh_registry()
    asked = store(repo).get_feature_service(name)
    return store(repo).get_online_features(asked, rows, full_feature_names=True).to_dict()


def hammer(repo: str, features: list[str], rows: list[dict], until: str, refresh_every: int) -> dict:
    """Read without a pause until a file appears; tells the versions seen and the mixed answers."""
    reads = mixed = 0
    seen = set()
    while not Path(until).exists():
        if reads % refresh_every == 0:
            store(repo).refresh_registry()
        answer = store(repo).get_online_features(features=features, entity_rows=rows).to_dict()
        reads += 1
        versions = set(answer["ptk_version"])
        values = set(answer["value"])
        seen |= versions
        mixed += len(versions) != 1 or values != {float(v) if v is not None else None for v in versions}
        filled = set(answer.get("filled_version", [1]))
        mixed += len(filled) != 1 or set(answer.get("value_filled", [1.0])) != {float(v) for v in filled}
        computed = set(answer.get("computed_version", [1]))
        mixed += len(computed) != 1 or set(answer.get("p_0", [1.0])) != {float(v) for v in computed}
        if reads == 1:
            Path(until).with_suffix(".begun").touch()
    return {"reads": reads, "mixed": mixed, "seen": sorted(seen, key=str)}


commands = {"online": online, "historical": historical, "hammer": hammer, "service": service}
commands |= {"online_asynchronously": online_asynchronously, "write": write}
for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"answer": commands[request.pop("do")](**request)}
    except Exception as error:  # noqa: BLE001
        answer = {"error": type(error).__name__, "text": str(error)}
    answer["ours"] = sorted(
        name for name in sys.modules if name.split(".")[0] in {"ptkstore", "ptklib", "workers"}
    )
    print(json.dumps(answer, default=str), flush=True)
