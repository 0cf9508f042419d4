"""An online store of Feast on Redis: one hash per view and version, one packed value per entity.

Reads what it wrote, not what Feast's own Redis store wrote. It has the same API and answers, with two exceptions. An
entity without a row is `NOT_FOUND`, as the interface has it and SQLite answers (Feast's Redis store says `PRESENT` and
null). And `key_ttl_seconds` counts for all rows of a view together, from the last write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

import feast.metrics
from feast import Entity, FeatureView, RepoConfig, utils
from feast.infra.online_stores.helpers import compute_versioned_name
from feast.infra.online_stores.online_store import OnlineStore
from feast.infra.online_stores.redis import RedisOnlineStore, RedisOnlineStoreConfig
from feast.online_response import OnlineResponse
from feast.protos.feast.types.EntityKey_pb2 import EntityKey
from feast.protos.feast.types.Value_pb2 import Value

from ptkstore.adapters.feast.packed import requests, writing
from ptkstore.adapters.feast.packed.columns import packed_rows, table_layout
from ptkstore.adapters.feast.packed.keys import row_field
from ptkstore.adapters.feast.packed.layout import Layouts
from ptkstore.adapters.feast.packed.messages import message
from ptkstore.adapters.feast.packed.reading import cells_of
from ptkstore.adapters.feast.tables import ViewTable
from ptkstore.adapters.feast.tags import PTK_VERSION_TAG

_NAME: Literal["ptkstore.adapters.feast.packed.PackedRedisOnlineStore"] = (
    "ptkstore.adapters.feast.packed.PackedRedisOnlineStore"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS_PER_ROUND_TRIP = 20_000

Progress = Callable[[int], Any]
Written = list[tuple[EntityKey, dict[str, Value], datetime, datetime | None]]
Read = list[tuple[datetime | None, dict[str, Value] | None]]


class PackedRedisOnlineStoreConfig(RedisOnlineStoreConfig):
    """As of Feast's Redis store: `connection_string`, `redis_type`, `key_ttl_seconds`, `skip_dedup` and so on."""

    type: Literal["ptkstore.adapters.feast.packed.PackedRedisOnlineStore"] = _NAME  # type: ignore[assignment]


class PackedRedisOnlineStore(RedisOnlineStore):
    """See the module; `type:` in `feature_store.yaml` names this class."""

    def __init__(self) -> None:
        self.layouts = Layouts()
        self._plans: requests.Plans | None = None

    # what publishers use beyond Feast's interface

    def hash_key(self, config: RepoConfig, table: FeatureView) -> bytes:
        """Return the Redis key of the rows of a view's version."""
        return f"{config.project}/{_namespace(table, config)}".encode()

    def write_table(self, config: RepoConfig, table: FeatureView, rows: ViewTable, as_of: datetime) -> None:
        """Put all rows of an Arrow table; repeatable."""
        layout = self.layouts.add(table_layout(rows))
        key = self.hash_key(config, table)
        client = self._get_client(config.online_store)
        self.run(client, writing.put(key, layout, (), ()))
        for fields, packed in packed_rows(rows, layout, as_of, at_once=_ROWS_PER_ROUND_TRIP):
            self.run(client, writing.put(key, layout, fields, packed))

    def key_of_version(self, config: RepoConfig, name: str, version: int) -> bytes:
        """Return the same key, by name and number."""
        return (
            f"{config.project}/{name}_v{version}".encode() if version else f"{config.project}/{name}".encode()
        )

    # Feast's interface: each pair shares its steps, a generator of commands, and differs in who waits for replies

    def online_write_batch(
        self, config: RepoConfig, table: FeatureView, data: Written, progress: Progress | None
    ) -> None:
        """Write rows; unless `skip_dedup` is set, those that are newer than what is there."""
        self.run(self._get_client(config.online_store), self._write(config, table, data))
        if progress:
            progress(len(data))

    async def online_write_batch_async(
        self, config: RepoConfig, table: FeatureView, data: Written, progress: Progress | None
    ) -> None:
        """Write rows as `online_write_batch` does."""
        client = await self._get_client_async(config.online_store)
        await self.run_async(client, self._write(config, table, data))
        if progress:
            progress(len(data))

    def online_read(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKey],
        requested_features: list[str] | None = None,
    ) -> Read:
        """Return event time and features per entity; (None, None) for one that has no row."""
        work = self._read(config, table, entity_keys, requested_features)
        rows: Read = self.run(self._get_client(config.online_store), work)
        return rows

    async def online_read_async(
        self,
        config: RepoConfig,
        table: FeatureView,
        entity_keys: list[EntityKey],
        requested_features: list[str] | None = None,
    ) -> Read:
        """Read rows as `online_read` does."""
        work = self._read(config, table, entity_keys, requested_features)
        rows: Read = await self.run_async(await self._get_client_async(config.online_store), work)
        return rows

    def get_online_features(self, config: RepoConfig, *request: Any, **options: Any) -> OnlineResponse:
        """Answer usual requests without a message per value, all others as every store does."""
        work = self._answer(config, *request, **options)
        if work is None:
            return super().get_online_features(config, *request, **options)
        response: OnlineResponse = self.run(self._get_client(config.online_store), work)
        return response

    async def get_online_features_async(
        self, config: RepoConfig, *request: Any, **options: Any
    ) -> OnlineResponse:
        """Answer as `get_online_features` does; what `feast serve` calls."""
        work = self._answer(config, *request, **options)
        if work is None:
            return await super().get_online_features_async(config, *request, **options)
        client = await self._get_client_async(config.online_store)
        response: OnlineResponse = await self.run_async(client, work)
        return response

    # Feast's Redis store reads its own form here; what every store does goes through `online_read`.
    _read_features_per_fv = OnlineStore._read_features_per_fv
    _read_features_per_fv_async = OnlineStore._read_features_per_fv_async

    # views that come and go

    def delete_table(self, config: RepoConfig, table: FeatureView) -> None:
        """Delete all rows of a view's version."""
        self._get_client(config.online_store).unlink(self.hash_key(config, table))

    def update(
        self,
        config: RepoConfig,
        tables_to_delete: Sequence[FeatureView],
        tables_to_keep: Sequence[FeatureView],
        entities_to_delete: Sequence[Entity],
        entities_to_keep: Sequence[Entity],
        partial: bool,
    ) -> None:
        """Delete the rows of views that are no longer; nothing has to be made for new ones.

        Parameters
        ----------
        config, tables_to_delete : RepoConfig, sequence of FeatureView
            Feast's configuration, and the views whose rows are deleted.
        tables_to_keep, entities_to_delete, entities_to_keep, partial
            Part of Feast's interface; not needed here.
        """
        for table in tables_to_delete:
            self.delete_table(config, table)

    def teardown(self, config: RepoConfig, tables: Sequence[FeatureView], entities: Sequence[Entity]) -> None:
        """Delete the rows of these views, of every version."""
        client = self._get_client(config.online_store)
        for table in tables:
            name = f"{config.project}/{table.name}"
            plain = "".join(f"\\{letter}" if letter in "*?[]^-\\" else letter for letter in name)
            client.unlink(name)
            for key in [key for key in client.scan_iter(f"{plain}_v*") if _is_version(key, name)]:
                client.unlink(key)

    # parts

    def _write(self, config: RepoConfig, table: FeatureView, data: Written) -> writing.Work:
        if not data:
            return
        options = config.online_store
        declared = {field.name: field.dtype.to_value_type() for field in table.features}
        rows = [
            writing.Row(row_field(key), _micros(utils.make_tzaware(at)), values)
            for key, values, at, _ in data
        ]
        hash_key = self.hash_key(config, table)
        if options.skip_dedup and all(declared.keys() <= row.values.keys() for row in rows):
            yield from writing.write(hash_key, rows, declared)
        else:
            newer_only = not options.skip_dedup
            yield from writing.merge(hash_key, rows, declared, self.layouts, newer_only=newer_only)
        if options.key_ttl_seconds:
            yield [("EXPIRE", hash_key, options.key_ttl_seconds)]

    def _read(
        self, config: RepoConfig, table: FeatureView, keys: list[EntityKey], requested: list[str] | None
    ) -> writing.Work:
        if not keys:
            return []
        fields = [row_field(key) for key in keys]
        rows = yield from writing.read(self.hash_key(config, table), fields, self.layouts)
        features = requested or [field.name for field in table.features]
        cells = cells_of(rows, features, self.layouts)
        answer: Read = []
        for index, micros in enumerate(cells.micros):
            if micros is None:
                answer.append((None, None))
                continue
            values = {
                feature: message(kind, column[index])
                for feature, (kind, column) in zip(features, cells.columns, strict=True)
            }
            answer.append((_moment(micros), values))
        return answer

    def _answer(
        self,
        config: RepoConfig,
        features: Any,
        entity_rows: Any,
        registry: Any,
        project: str,
        full_feature_names: bool = False,
        include_feature_view_version_metadata: bool = False,
    ) -> writing.Work | None:
        """Plan the answer of a request; None if the request is not a usual one."""
        if (
            include_feature_view_version_metadata
            or getattr(features, "precompute_online", False)
            or _metrics_are_kept()
        ):
            return None
        if self._plans is None:
            self._plans = requests.Plans(lambda view: self.hash_key(config, view))
        context = utils._get_cached_request_context(registry, project, features, full_feature_names)
        plan = self._plans.of(context, full_feature_names)
        columns = None if plan is None else requests.key_columns(plan, entity_rows)
        if plan is None or columns is None:
            return None
        fields = requests.fields_by_table(plan, columns)
        return None if fields is None else requests.answer(plan, columns, fields, self.layouts)

    def run(self, client: Any, work: writing.Work) -> Any:
        """Carry out commands, one round trip per batch."""
        try:
            commands = next(work)
            while True:
                sent = _send(client, commands)
                commands = work.send([sent] if len(commands) == 1 else sent)
        except StopIteration as done:
            return done.value

    async def run_async(self, client: Any, work: writing.Work) -> Any:
        """Carry out commands as `run` does."""
        try:
            commands = next(work)
            while True:
                sent = await _send(client, commands)
                commands = work.send([sent] if len(commands) == 1 else sent)
        except StopIteration as done:
            return done.value


def _send(client: Any, commands: list[writing.Command]) -> Any:
    """Send commands and return their replies, or the one reply; an asynchronous client's have to be awaited."""
    if len(commands) == 1:
        return client.execute_command(*commands[0])
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    return pipe.execute()


def _namespace(table: FeatureView, config: RepoConfig) -> str:
    """As Feast names it, but also for copies of a view, which lose their version in Feast 0.67 and keep their tags."""
    versioned = config.registry.enable_online_feature_view_versioning
    name: str = compute_versioned_name(table, versioned)
    if versioned and name == table.name and table.current_version_number is None:
        with suppress(ValueError):
            number = int((table.tags or {}).get(PTK_VERSION_TAG, "0"))
            return f"{name}_v{number}" if number > 0 else name
    return name


def _is_version(key: bytes, name: str) -> bool:
    return key.decode().removeprefix(f"{name}_v").isdecimal()


def _micros(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def _metrics_are_kept() -> bool:
    """Whether `feast serve` counts what is read, which its own way does."""
    return bool(getattr(getattr(feast.metrics, "_config", None), "online_features", False))
