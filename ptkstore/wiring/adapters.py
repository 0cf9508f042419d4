"""The adapters that the settings name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ptkstore.adapters.processes import ForgetfulRedisServer, RedisServer, make_home
from ptkstore.adapters.runtime import SilentSteps, SystemClock
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Begin, Read
from ptkstore.ports.features import FeatureStore
from ptkstore.ports.messages import ManifestAddresses
from ptkstore.ports.operations import CatalogSchema
from ptkstore.ports.runtime import Clock, Steps
from ptkstore.ports.tracing import SilentTraces, Traces
from ptkstore.settings import Settings
from ptkstore.wiring.tracing import TracedSteps

if TYPE_CHECKING:
    from ptkstore.adapters.devices import RedisInstances, RedisReports
    from ptkstore.adapters.feast import RedisOnline, SqliteOnline
    from ptkstore.adapters.keys import FileKeyStore, FileSigner
    from ptkstore.adapters.objects import (
        FsspecBundles,
        FsspecCheckpoints,
        FsspecLake,
        FsspecRawZone,
        FsspecStaging,
    )
    from ptkstore.adapters.sandbox.parent import BubblewrapSandbox, ChildRuns
    from ptkstore.adapters.sql import SqlCatalog
    from ptkstore.adapters.streams import RedisStreams
    from ptkstore.adapters.webhooks import HttpCourier, HttpMessenger
    from ptkstore.application.ledger.group_commit import GroupCommit
    from ptkstore.application.ptks.team_code import Registering
    from ptkstore.application.streams.exposure import PrivatePlaces


class Adapters:
    """The adapters of use cases.

    Adapters are imported and made at first use, so that a process pays only for what it does. Not shared between
    processes: after a fork, make new ones. Work that waits for the catalog leaves off once its process was
    `must_stop`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        steps: Steps | None = None,
        must_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.steps: Steps = steps or SilentSteps()
        self.must_stop = must_stop

    @cached_property
    def catalog(self) -> SqlCatalog:
        from ptkstore.adapters.sql import SqlCatalog

        self._home_unless(self.settings.database_url)
        return SqlCatalog(self.settings.catalog_url)

    @property
    def catalog_schema(self) -> CatalogSchema:
        """The catalog's schema, which may be one that `catalog` refuses."""
        from ptkstore.adapters.sql.migrating import SqlCatalogSchema

        return SqlCatalogSchema(self.settings.catalog_url)

    @cached_property
    def keys(self) -> FileKeyStore:
        from ptkstore.adapters.keys import FileKeyStore

        self._home_unless(self.settings.keys_url)
        return FileKeyStore(self.settings.keys)

    @cached_property
    def signer(self) -> FileSigner:
        from ptkstore.adapters.keys import FileSigner

        self._home_unless(self.settings.keys_url)
        return FileSigner(self.settings.keys)

    @cached_property
    def raw(self) -> FsspecRawZone:
        from ptkstore.adapters.keys import AesGcmSealer
        from ptkstore.adapters.objects import FsspecRawZone

        self._home_unless(self.settings.raw_url)
        return FsspecRawZone(self.settings.raw, AesGcmSealer())

    @cached_property
    def staging(self) -> FsspecStaging:
        from ptkstore.adapters.keys import AesGcmSealer
        from ptkstore.adapters.objects import FsspecStaging

        self._home_unless(self.settings.raw_url)
        return FsspecStaging(self.settings.raw, AesGcmSealer())

    @cached_property
    def checkpoints(self) -> FsspecCheckpoints:
        from ptkstore.adapters.keys import AesGcmSealer
        from ptkstore.adapters.objects import FsspecCheckpoints

        self._home_unless(self.settings.raw_url)
        return FsspecCheckpoints(self.settings.raw, AesGcmSealer())

    @cached_property
    def lake(self) -> FsspecLake:
        from ptkstore.adapters.objects import FsspecLake

        self._home_unless(self.settings.lake_url)
        return FsspecLake(self.settings.lake)

    @cached_property
    def bundles(self) -> FsspecBundles:
        from ptkstore.adapters.objects import FsspecBundles

        self._home_unless(self.settings.lake_url)
        return FsspecBundles(self.settings.lake)

    @cached_property
    def sandbox(self) -> BubblewrapSandbox:
        from ptkstore.adapters.sandbox.parent import Bubblewrap, BubblewrapSandbox, Limits

        settings = self.settings
        return BubblewrapSandbox(
            Bubblewrap(settings.bubblewrap, settings.places),
            Limits(settings.examine_timeout_seconds, settings.train_memory_mib * 2**20),
        )

    @cached_property
    def profiler(self) -> ChildRuns:
        return self._runs(self.settings.profile_timeout_seconds)

    def _runs(self, timeout_seconds: float | None = None) -> ChildRuns:
        from ptkstore.adapters.sandbox.parent import ChildRuns, Program

        program = Program(
            raw_url=self.raw.url,
            staging_url=self.staging.url,
            timeout_seconds=timeout_seconds or self.settings.train_timeout_seconds,
            memory_bytes=self.settings.train_memory_mib * 2**20,
            python=sys.executable,
            bubblewrap=self.settings.bubblewrap,
        )
        return ChildRuns(program, staging=self.staging)

    trainer = cached_property(_runs)
    evaluator = cached_property(_runs)
    comparer = cached_property(_runs)
    preparer = cached_property(_runs)
    eraser = cached_property(_runs)

    @cached_property
    def features(self) -> FeatureStore:
        """Feast, which its room imports at first use because that takes seconds."""
        from ptkstore.adapters.feast import FeastFeatureStore

        return FeastFeatureStore(
            self.feast_repo,
            keep_versions=self.settings.keep_versions,
            keep_seconds=self.settings.keep_superseded_seconds,
        )

    @cached_property
    def messenger(self) -> HttpMessenger:
        from ptkstore.adapters.webhooks import HttpMessenger

        return HttpMessenger(allowed_networks=self.settings.webhook_networks)

    @cached_property
    def courier(self) -> HttpCourier:
        from ptkstore.adapters.webhooks import HttpCourier

        return HttpCourier(self.messenger)

    @property
    def manifests(self) -> ManifestAddresses:
        """The place that messages name: the HTTP API if its public address is known, else the lake."""
        from ptkstore.adapters.webhooks import ApiManifests

        public_url = self.settings.api_public_url
        return self.lake if public_url is None else ApiManifests(public_url)

    @cached_property
    def event_streams(self) -> RedisStreams:
        from ptkstore.adapters.streams import RedisStreams

        return RedisStreams(self.redis_url)

    @cached_property
    def instances(self) -> RedisInstances:
        from ptkstore.adapters.devices import RedisInstances

        return RedisInstances(self.devices_redis_url)

    @cached_property
    def reports(self) -> RedisReports:
        from ptkstore.adapters.devices import RedisReports

        return RedisReports(self.devices_redis_url)

    @property
    def begin(self) -> Begin:
        """Starts a transaction on the catalog."""
        return self.catalog.begin

    @property
    def read(self) -> Read:
        """Starts a transaction that only reads: it waits for no writer, and has nothing to commit."""
        return self.catalog.read

    @property
    def read_one_moment(self) -> Read:
        """Starts one that only reads, and whose every read sees the catalog as it was at the first; not its ledger."""
        return self.catalog.read_one_moment

    @cached_property
    def charges(self) -> GroupCommit:
        from ptkstore.application.ledger.group_commit import GroupCommit

        return GroupCommit(self.begin)

    @cached_property
    def traces(self) -> Traces:
        """Spans of requests and jobs; `InvalidRequest` if a collector is named, and what sends to it not installed."""
        if self.settings.otlp_endpoint is None:
            return SilentTraces()
        try:
            from ptkstore.adapters.tracing import OtlpTraces
        except ModuleNotFoundError as error:
            raise InvalidRequest("PTK_OTLP_ENDPOINT needs: pip install 'ptkstore[tracing]'") from error
        return OtlpTraces(self.settings.otlp_endpoint, now=lambda: self.clock.now(), tick=self.settings.tick)

    @property
    def registering(self) -> Registering:
        """What registers PTKs."""
        from ptkstore.application.ptks.team_code import Registering

        return Registering(
            self.begin,
            self.clock,
            self.features,
            self.bundles,
            self.sandbox,
            self.keys,
            self.catalog.journal_view(),
        )

    @property
    def private_places(self) -> PrivatePlaces:
        """The places that may have something else than DP output."""
        from ptkstore.application.streams.exposure import PrivatePlaces

        return PrivatePlaces(self.keys, self.raw, self.staging)

    @property
    def traced_steps(self) -> Steps:
        """The steps of a job, told to its span too."""
        return TracedSteps(self.steps, self.traces)

    @property
    def broker_url(self) -> str:
        """The broker's URL as Celery takes it."""
        named = self.settings.redis_url
        if named is None:
            return RedisServer(self.settings.root).celery_url
        return named.replace("unix://", "redis+socket://", 1)

    @property
    def redis_url(self) -> str:
        """The URL of Redis as its own client takes it."""
        named = self.settings.redis_url
        if named is None:
            return RedisServer(self.settings.root).client_url
        return named.replace("redis+socket://", "unix://", 1)

    @property
    def devices_redis_url(self) -> str:
        """The URL of the Redis of models that devices train."""
        return self.settings.devices_redis_url or ForgetfulRedisServer(self.settings.root).client_url

    @property
    def feast_registry_url(self) -> str:
        """The place of Feast's registry: beside the catalog in PostgreSQL, else in a file of its own."""
        return self.settings.database_url or f"sqlite:///{self.settings.root / 'feast' / 'registry.db'}"

    @property
    def feast_online(self) -> RedisOnline | SqliteOnline:
        """The place of Feast's online rows."""
        from ptkstore.adapters.feast import RedisOnline, SqliteOnline

        if self.settings.online_in_redis:
            return RedisOnline.from_url(self.redis_url, packed=self.settings.online_store == "packed")
        return SqliteOnline()

    @cached_property
    def feast_repo(self) -> Path:
        """A plain Feast repository, written from the settings."""
        from ptkstore.adapters.feast import write_repo

        make_home(self.settings.root)
        repo = self.settings.root / "feast"
        write_repo(repo, self.feast_registry_url, self.feast_online)
        return repo

    def _home_unless(self, elsewhere: str | None) -> None:
        """Make the home, private, before anything in it; nothing for places that a setting names elsewhere."""
        if elsewhere is None:
            make_home(self.settings.root)

    def close(self) -> None:
        """Give connections back."""
        for name in ("courier", "event_streams", "instances", "catalog", "traces"):
            if name in self.__dict__:
                self.__dict__[name].close()
