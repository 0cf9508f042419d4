"""A device stream in a world, with instances that the library's own functions put into a real Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import redis

from ptklib import DrawDiscardModel
from ptklib.draw_discard import HonestRange, Specification, draw_instance, make_report, put_report
from ptkstore.adapters.devices import RedisInstances
from ptkstore.adapters.devices.keys import counts_key, instances_key
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.streams.policies import Closing, Policy, RowPlace
from ptkstore.domain.streams.report_counts import TAKEN
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.versions.versions import version_path
from ptkstore.ports.devices import Epoch
from tests.support.world import DAY, ORIGIN, World

PHONES, LABELLED = "phones", "labelled"
PTK = "taxi.phishy"
AVERAGING = ("average", "place", "flip")
SCHEMA = Schema(
    (
        ("at", ColumnType.TIMESTAMP),
        ("length", ColumnType.FLOAT64),
        ("links", ColumnType.INT64),
        ("kind", ColumnType.STRING),
        ("spam", ColumnType.BOOL),
    ),
    "at",
)
FEATURES: Mapping[str, Any] = {"length": (0.0, 100.0), "kind": ["mail", "text"]}
MakeReport = Callable[[Specification, np.ndarray], np.ndarray]


def device_policy(**policy: Any) -> Policy:
    """3.47 per report, one in a window and eight in all."""
    said = {
        "closing": Closing.OPERATOR,
        "report_epsilon": 3.47,
        "reports_per_window": 1,
        "reports_in_all": 8,
    }
    window = policy.pop("window", DAY)
    return Policy(NO_LOSS, window, ORIGIN, rows=RowPlace.ON_DEVICES, **{**said, **policy})


def phishy(**params: Any) -> Mapping[str, Any]:
    """A logistic model of 4 weights and 3 instances, as data."""
    said = {"features": FEATURES, "label": "spam", "k": 3, "epsilon": 3.47}
    spec: Mapping[str, Any] = DrawDiscardModel(**{**said, **params}).to_spec()
    return spec


class DeviceWorld(World):
    """A world whose devices have a Redis that forgets, in a database of its own."""

    def __init__(self, home: Path, server: ForgetfulRedisServer, database: int = 5) -> None:
        self.url = fresh_database(server, database)
        super().__init__(home, devices_redis_url=self.url)

    def go_away(self) -> None:
        """Have the server of instances answer nobody."""
        self.service.instances.close()
        self.service.__dict__["instances"] = RedisInstances("unix:///nowhere/redis.sock")

    def come_back(self) -> None:
        del self.service.__dict__["instances"]

    def lose_instances(self) -> None:
        """What a restart of that Redis loses."""
        with redis.Redis.from_url(self.url) as client:
            client.flushdb()

    def phones(self, name: str = PHONES, **policy: Any) -> Stream:
        made = Stream(name, "taxi", SCHEMA, device_policy(**policy))
        self.service.create_stream(made)
        return made

    def labelled(self, name: str = LABELLED, epsilon: object = 1, **policy: Any) -> Stream:
        """A stream of the same schema with rows in the store: a tenth of them are test rows."""
        said = {"closing": Closing.OPERATOR, "retention_windows": 3, "rows_per_window": 4_000}
        schema = policy.pop("schema", SCHEMA)
        window = policy.pop("window", DAY)
        made = Stream(
            name, "taxi", schema, Policy(Loss.capacity(epsilon), window, ORIGIN, **{**said, **policy})
        )
        self.service.create_stream(made)
        return made

    def label(self, day: int, n: int = 4_000) -> None:
        """Take in labelled rows of a day and have its window prepared."""
        self.service.ingest(LABELLED, labelled_rows([day + one / n for one in range(n)]))
        self.service.close_windows(LABELLED, ORIGIN + (day + 1) * DAY)
        self.work("prepare", "allocate")

    def register_phishy(self, name: str = "phishy", *, stream: str = PHONES, **more: Any) -> str:
        fields = {"train_frequency": "1d", "estimator": phishy()}
        return self.service.register_ptk(team="taxi", name=name, stream=stream, **{**fields, **more})

    def close_phones(self, windows: int) -> None:
        """Close the first so many windows."""
        self.service.close_windows(PHONES, ORIGIN + windows * DAY)

    def damage(self, ptk_id: str, number: int) -> None:
        """Leave nothing to read of a version's tables in the lake."""
        files = list((Path(self.service.settings.lake) / version_path(ptk_id, number)).glob("*.parquet"))
        assert files
        for file in files:
            file.chmod(0o600)
            file.write_bytes(b"damaged")

    def begin_epoch(self) -> tuple[Specification, Epoch]:
        """Have devices begin, as their first draw does."""
        from ptkstore.wiring.work import devices_of

        ptk, epoch = devices_of(self.service).epoch_of(PTK)
        return ptk.specification, epoch

    def report(self, tables: Sequence[Mapping[str, Sequence[Any]]]) -> np.ndarray:
        """Let one device after the other draw, step and put; return the instances that are there then."""

        def report_on(table: Mapping[str, Sequence[Any]]) -> MakeReport:
            return lambda specification, instances: make_report(
                specification, draw_instance(specification, instances), table
            )

        return self.put(report_on(table) for table in tables)

    def poison(self, n: int) -> np.ndarray:
        """Put so many reports that push all weights one way, as far as the tests for spam let them."""
        return self.put([pushed] * n)

    def put(self, reports: Iterable[MakeReport]) -> np.ndarray:
        """Make and put one report after the other; return the instances that are there then."""
        specification, epoch = self.begin_epoch()
        instances, made = self.service.instances.all(PTK, epoch.id), list(reports)
        for make in made:
            put_report(specification, instances, make(specification, instances))
        with redis.Redis.from_url(self.url) as client:
            packed = {str(place): row.astype("<i4").tobytes() for place, row in enumerate(instances)}
            client.hset(instances_key(PTK, epoch.id), mapping=packed)
            client.hincrby(counts_key(PTK, epoch.id), TAKEN, len(made))
        return instances


def pushed(specification: Specification, instances: np.ndarray) -> np.ndarray:
    """Return a report that pushes all weights one way, and that the tests for spam admit."""
    honest = HonestRange.of(specification, instances, 1e-6, n_puts=1)
    step = min(honest.norm / np.sqrt(specification.n_weights), honest.widths.min())
    report = np.floor(honest.means + 0.99 * step).astype(np.int32)
    assert honest.admits(report)
    return report


def fresh_database(server: ForgetfulRedisServer, number: int) -> str:
    """Return the URL of an empty database."""
    url = f"{server.client_url}?db={number}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


def device_table(n: int = 3) -> Mapping[str, Sequence[Any]]:
    """Rows of one device."""
    return {
        "length": [10.0 * i for i in range(n)],
        "kind": ["mail", "text", "other"][:n],
        "spam": [True] * n,
    }


def labelled_rows(days: Sequence[float], *, spam: bool = True) -> pa.Table:
    """Rows of the schema of devices, one at each of these days after the origin."""
    n = len(days)
    return pa.table(
        {
            "at": pa.array([ORIGIN + day * DAY for day in days], pa.timestamp("us", "UTC")),
            "length": pa.array(np.linspace(0.0, 100.0, n)),
            "links": pa.array(np.arange(n) % 3),
            "kind": pa.array(["mail"] * n),
            "spam": pa.array([spam] * n),
        }
    )
