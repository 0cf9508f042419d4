"""Lake and raw zone on a real gateway, Ceph's: what moto is only said to do."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import fsspec
import pytest
import s3fs
from fsspec.config import conf

from ptkstore.adapters.objects import FsspecLake
from ptkstore.adapters.objects.remote import RemotePlace
from ptkstore.domain.jobs import Outcome
from ptkstore.errors import OutcomeUnknown, PtkStoreError, Unavailable
from ptkstore.settings import load_settings
from tests.services.ceph import Ceph
from tests.services.proxy import KINDS, FaultyHttp, between_us_and
from tests.support.plugins.measurements import Measured
from tests.support.published import PTK, a_version, content
from tests.support.world import World

pytestmark = [pytest.mark.real, pytest.mark.soak]

BUCKET = "ptk-ceph"


@pytest.fixture(scope="module")
def proxy(ceph: Ceph) -> Iterator[FaultyHttp]:
    with pytest.MonkeyPatch.context() as environment, between_us_and(ceph.endpoint) as made:
        environment.setenv("AWS_ENDPOINT_URL", made.url)
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_ACCESS_KEY_ID", ceph.access)
        environment.setenv("AWS_SECRET_ACCESS_KEY", ceph.secret)
        retries = {"mode": "standard", "total_max_attempts": 2}
        environment.setitem(conf, "s3", {"config_kwargs": {"read_timeout": 5, "retries": retries}})
        s3fs.S3FileSystem.clear_instance_cache()
        fsspec.filesystem("s3").mkdir(BUCKET)
        yield made
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def place(proxy: FaultyHttp) -> RemotePlace:
    proxy.heal()
    return RemotePlace(f"s3://{BUCKET}/{secrets.token_hex(4)}")


def test_of_many_writers_of_one_name_exactly_one_wins(place: RemotePlace, measured: Measured) -> None:
    rounds, writers = 100, 8
    several = 0
    with ThreadPoolExecutor(writers) as threads:
        for turn in range(rounds):
            contents = [secrets.token_bytes(16) for _ in range(writers)]
            won = list(threads.map(lambda c, turn=turn: place.create(f"race/{turn}", c), contents))
            several += sum(won) != 1
            assert place.read(f"race/{turn}") == contents[won.index(True)]
    measured(
        id="ceph/races",
        measure="races with other than one winner",
        unit="races",
        ours=several,
        goal=0,
        direction="min",
    )
    assert several == 0


@pytest.mark.parametrize("kind", KINDS)
def test_faults_before_the_gateway_lose_and_double_nothing(
    place: RemotePlace, proxy: FaultyHttp, kind: str
) -> None:
    for method, act, expected in (
        ("PUT", lambda: place.create("a/x", b"old"), True),
        ("PUT", lambda: place.create("a/x", b"other"), False),
        ("PUT", lambda: place.replace("a/x", b"new"), None),
        ("GET", lambda: place.read("a/x"), b"new"),
        ("GET", lambda: place.find("a"), ("a/x",)),
        ("POST", lambda: place.delete("a"), None),
    ):
        rule = proxy.strike(kind, method)
        assert act() == expected
        assert rule.struck == 1
    assert place.find("") == ()


def test_a_version_is_whole_or_absent(place: RemotePlace, proxy: FaultyHttp) -> None:
    for turn, kind in enumerate(KINDS):
        lake = FsspecLake(f"{place.url}/{turn}")
        files = content(b"one" * 100, b"two" * 100)
        version = a_version(files)
        proxy.strike(kind, "PUT", skip=turn % 3, times=20)
        with suppress(PtkStoreError):
            lake.put_version(version, files)
        proxy.heal()
        lake.put_version(version, files)
        assert lake.read_version(PTK, 1) == (version.content, files)


def test_thousands_of_objects_are_listed_and_deleted(place: RemotePlace) -> None:
    names = [f"many/{number:04}" for number in range(1_100)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: place.replace(name, b"x"), names))
    assert place.find("many") == tuple(names)
    place.delete("many")
    assert place.find("") == ()


def test_large_objects_travel_in_parts(place: RemotePlace) -> None:
    large = secrets.token_bytes(1 << 20) * 101
    place.replace("large", large)
    assert place.read("large") == large
    with suppress(OutcomeUnknown):
        assert place.create("large", b"small") is False
    assert place.read("large") == large


def test_wrong_credentials_are_told_by_a_code(proxy: FaultyHttp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(Unavailable, match="SignatureDoesNotMatch"):
        RemotePlace(f"s3://{BUCKET}/x").replace("a", b"1")
    s3fs.S3FileSystem.clear_instance_cache()


def test_rows_become_a_state_there(
    proxy: FaultyHttp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.heal()
    monkeypatch.setenv("PTK_RAW_URL", f"s3://{BUCKET}/journey/raw")
    monkeypatch.setenv("PTK_LAKE_URL", f"s3://{BUCKET}/journey/lake")
    settings = load_settings(tmp_path / "home")
    world = World(settings.root, raw_url=settings.raw_url, lake_url=settings.lake_url)
    world.in_processes()
    world.stream()
    ptk_id = world.register()
    world.ingest([i / 50 for i in range(40)])
    world.close(1)
    world.work()
    assert world.job(f"train/{ptk_id}/0").outcome is Outcome.PUBLISHED
    assert world.service.lake.read_version(ptk_id, 1)[1]
    world.service.close()
