"""The whole chain with raw zone and lake in an object store: the processes that open rows reach it, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import s3fs

from ptkstore.domain.jobs import Outcome
from ptkstore.settings import load_settings
from tests.support.s3 import serving
from tests.support.world import STREAM, World

pytestmark = [pytest.mark.real, pytest.mark.long]

BUCKET = "ptk-journey"


@pytest.fixture
def object_store() -> Iterator[None]:
    """An S3 server that the environment names, as it would in production."""
    with pytest.MonkeyPatch.context() as environment, serving() as endpoint:
        environment.setenv("AWS_ENDPOINT_URL", endpoint)
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_ACCESS_KEY_ID", "test")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "test")
        s3fs.S3FileSystem.clear_instance_cache()  # connections to the server of another test
        fsspec.filesystem("s3").mkdir(BUCKET)
        yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def world(object_store: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A service that reads the addresses of its trees from the environment."""
    monkeypatch.setenv("PTK_RAW_URL", f"s3://{BUCKET}/raw")
    monkeypatch.setenv("PTK_LAKE_URL", f"s3://{BUCKET}/lake")
    settings = load_settings(tmp_path / "home")
    made = World(settings.root, raw_url=settings.raw_url, lake_url=settings.lake_url)
    made.in_processes()
    made.stream()
    yield made
    made.service.close()


def test_rows_in_an_object_store_become_a_state_in_an_object_store(world: World, tmp_path: Path) -> None:
    ptk_id = world.register()
    world.ingest([i / 50 for i in range(40)])
    world.close(1)
    worked = world.work()
    assert worked == [f"prepare/{STREAM}/0", f"allocate/{STREAM}/0", f"train/{ptk_id}/0", f"place/{ptk_id}"]
    assert world.job(f"train/{ptk_id}/0").outcome is Outcome.PUBLISHED
    (version,) = world.service.versions(ptk_id)
    manifest, files = world.service.lake.read_version(ptk_id, 1)
    assert manifest == version.content
    assert files
    stored = [name.partition("/")[2] for name in fsspec.filesystem("s3").find(BUCKET)]
    assert sorted(name for name in stored if name.endswith("manifest.json")) == [
        f"lake/ptks/{ptk_id}/v00000001/manifest.json"
    ]
    assert [name for name in stored if name.startswith(f"raw/{STREAM}/0/parts/")] == [
        f"raw/{STREAM}/0/parts/{part}.parquet" for part in range(3)
    ]
    assert [path.name for path in tmp_path.rglob("*.parquet")] == []
