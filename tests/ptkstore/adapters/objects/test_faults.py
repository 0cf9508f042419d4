"""What an object store does between us and it: refusals, cuts, silence, answers that lie about what was done."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Iterator
from contextlib import suppress

import fsspec
import pytest
import s3fs
from fsspec.config import conf
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT  # type: ignore[attr-defined]
from moto.s3.models import s3_backends

from ptkstore.adapters.objects import FsspecLake
from ptkstore.adapters.objects.bundles import FsspecBundles
from ptkstore.adapters.objects.remote import RemotePlace
from ptkstore.errors import InvalidRequest, OutcomeUnknown, PtkStoreError, Unavailable
from tests.services.proxy import KINDS, FaultyHttp, between_us_and
from tests.support.published import PTK, a_version, content

pytestmark = pytest.mark.real

SECRET = "sec" + "ret" * 6
USUAL = ("503", "swallowed", "cut-after", "cut-body")
EVERY = [kind if kind in USUAL else pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS]


@pytest.fixture
def proxy(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyHttp]:
    """A proxy that our side takes for the store; what lies behind is reached through `s3_server`."""
    import os

    monkeypatch.setitem(
        conf,
        "s3",
        {"config_kwargs": {"read_timeout": 1, "retries": {"mode": "standard", "total_max_attempts": 2}}},
    )
    s3fs.S3FileSystem.clear_instance_cache()
    with between_us_and(os.environ["AWS_ENDPOINT_URL"]) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.url)
        yield made
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def place(proxy: FaultyHttp, s3_server: str) -> RemotePlace:
    return RemotePlace(f"{s3_server}/{secrets.token_hex(4)}")


@pytest.mark.parametrize("kind", EVERY)
def test_a_create_succeeds_once_whatever_became_of_its_first_answer(place, proxy, kind):
    rule = proxy.strike(kind, "PUT")
    assert place.create("a/b", b"mine") is True
    assert rule.struck == 1
    assert place.read("a/b") == b"mine"
    assert place.create("a/b", b"theirs") is False
    assert place.read("a/b") == b"mine"


@pytest.mark.parametrize("kind", EVERY)
def test_a_create_that_lost_says_so_whatever_became_of_its_first_answer(place, proxy, kind):
    assert place.create("a/b", b"theirs") is True
    rule = proxy.strike(kind, "PUT")
    assert place.create("a/b", b"mine") is False
    assert rule.struck == 1
    assert place.read("a/b") == b"theirs"


@pytest.mark.long
@pytest.mark.parametrize("kind", EVERY)
def test_every_other_request_is_repeated_and_counts_once(place, proxy, kind):
    place.create("a/x", b"old")
    place.create("a/c/y", b"y")
    for method, act, expected in (
        ("PUT", lambda: place.replace("a/x", b"new"), None),
        ("GET", lambda: place.read("a/x"), b"new"),
        ("GET", lambda: place.find("a"), ("a/c/y", "a/x")),
        ("GET", lambda: place.folders("a"), ("c",)),
        ("HEAD", lambda: place.exists("a/x"), True),
        ("POST", lambda: place.delete("a"), None),
    ):
        rule = proxy.strike(kind, method)
        assert act() == expected
        assert rule.struck == 1
    assert place.find("a") == ()


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "swallowed",
        *(pytest.param(k, marks=pytest.mark.soak) for k in ("500", "503", "cut-before", "cut-after")),
    ],
)
def test_a_store_that_stays_ill_is_told_by_an_error_and_a_second_try_settles_it(place, proxy, kind):
    for act in (
        lambda: place.create("a/x", b"1"),
        lambda: place.replace("a/y", b"2"),
        lambda: place.delete("a"),
        lambda: place.read("a/x"),
        lambda: place.find("a"),
    ):
        proxy.strike(kind, times=10_000)
        with pytest.raises((Unavailable, OutcomeUnknown)) as raised:
            act()
        assert "127.0.0.1" not in "".join(traceback.format_exception(raised.value))
        proxy.heal()
        with suppress(FileNotFoundError):
            act()
    assert place.find("a") == ()


@pytest.mark.long
def test_bodies_that_never_come_whole_are_told_and_not_taken_for_damaged_files(place, proxy):
    place.create("a/x", b"content" * 1000)
    proxy.strike("cut-body", "GET", times=10_000)
    for act in (lambda: place.read("a/x"), lambda: place.open("a/x"), lambda: place.find("a")):
        with pytest.raises(Unavailable):
            act()
    proxy.heal()
    assert place.read("a/x") == b"content" * 1000


@pytest.mark.long
def test_a_write_without_an_answer_is_of_unknown_outcome_and_a_refused_one_is_not(place, proxy):
    proxy.strike("swallowed", times=10_000)
    with pytest.raises(OutcomeUnknown, match=r"\(InternalError\)"):
        place.replace("a", b"1")
    proxy.heal()
    assert place.read("a") == b"1"
    proxy.forbidden = frozenset({"PUT", "POST", "DELETE"})
    for act in (lambda: place.create("b", b"1"), lambda: place.replace("a", b"2"), lambda: place.delete("a")):
        with pytest.raises(Unavailable, match=r"\(AccessDenied\)"):
            act()
    assert place.find("") == ("a",)
    assert place.read("a") == b"1"


@pytest.mark.long
def test_an_ambiguous_create_is_settled_by_a_look(place, proxy):
    proxy.strike("swallowed", "PUT", times=10_000)
    assert place.create("a", b"mine") is True  # the answers said 500; the object says otherwise
    proxy.heal()
    place.create("b", b"theirs")
    proxy.strike("500", "PUT", times=10_000)
    assert place.create("b", b"mine") is False
    with pytest.raises(OutcomeUnknown):  # nothing lies there; a late request may still come
        place.create("c", b"mine")


@pytest.mark.long
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("nth", [2, *(pytest.param(n, marks=pytest.mark.soak) for n in (0, 1))])
def test_a_version_in_the_lake_is_whole_or_absent_after_every_fault(proxy, s3_server, kind, nth):
    url = f"{s3_server}/{secrets.token_hex(4)}"
    lake = FsspecLake(url)
    files = content(b"one" * 100, b"two" * 100)
    version = a_version(files)
    proxy.strike(kind, "PUT", skip=nth, times=20)
    with suppress(PtkStoreError):
        lake.put_version(version, files)
    proxy.heal()
    filesystem = fsspec.filesystem("s3")
    stored = [path.rpartition("/")[2] for path in filesystem.find(url)]
    if "manifest.json" in stored:
        assert lake.read_version(PTK, 1) == (version.content, files)
    lake.put_version(version, files)  # as the next worker does
    assert lake.read_version(PTK, 1) == (version.content, files)
    assert sorted(p.rpartition("/")[2] for p in filesystem.find(url)) == sorted([*files, "manifest.json"])


@pytest.mark.parametrize("kind", EVERY)
def test_a_bundle_is_stored_once_and_whole(proxy, s3_server, kind):
    url = f"{s3_server}/{secrets.token_hex(4)}"
    rule = proxy.strike(kind, "PUT")
    sha256 = FsspecBundles(url).put(b"code" * 1000)
    assert rule.struck == 1
    assert FsspecBundles(url).put(b"code" * 1000) == sha256
    assert FsspecBundles(url).get(sha256) == b"code" * 1000


@pytest.mark.long
def test_two_writers_behind_a_lying_proxy_have_one_winner(place, proxy):
    for turn in range(12):
        proxy.strike(KINDS[turn % len(KINDS)], "PUT")
        won = [place.create(f"race/{turn}", bytes([writer])) for writer in (1, 2)]
        assert won == [True, False]
        assert place.read(f"race/{turn}") == b"\x01"


@pytest.mark.long
def test_folders_of_thousands_of_objects_are_listed_and_deleted_whole(place, proxy):
    names = [f"many/{number:04}" for number in range(2_050)]
    for name in names:  # behind the protocol, which would take seconds
        s3_backends[ACCOUNT]["aws"].put_object("ptk-tests", f"{place._root.partition('/')[2]}/{name}", b"")
    place.replace("other", b"1")
    assert place.find("many") == tuple(names)
    assert set(place.ages("many")) == set(names)
    proxy.seen.clear()
    place.delete("many")
    assert place.find("") == ("other",)
    assert sum(method == "POST" for method, _ in proxy.seen) == 3  # a thousand names each


@pytest.mark.soak
def test_large_objects_travel_in_parts_and_still_appear_once_and_whole(place, proxy):
    large = secrets.token_bytes(1 << 20) * 101
    rule = proxy.strike("swallowed", "PUT", "partNumber=2")
    assert place.create("large", large) is True
    assert rule.struck == 1
    assert any("uploadId" in path for _, path in proxy.seen)
    assert place.create("large", large[:-1] + b"x") is False
    assert place.read("large") == large
    rule = proxy.strike("swallowed", "POST", "uploadId")  # the last request, which makes the object appear
    with suppress(OutcomeUnknown):
        assert place.create("large2", large) is True
    assert rule.struck == 1
    assert place.read("large2") == large


def test_a_missing_bucket_is_not_taken_for_missing_rows(proxy, s3_server):
    elsewhere = RemotePlace("s3://no-such-bucket-here/tree")
    for act in (
        lambda: elsewhere.read("a"),
        lambda: elsewhere.replace("a", b""),
        lambda: elsewhere.create("a", b""),
    ):
        with pytest.raises(Unavailable, match="NoSuchBucket"):
            act()


def test_credentials_are_neither_taken_from_an_address_nor_told(proxy, s3_server, monkeypatch):
    for url in (f"s3://key:{SECRET}@bucket/x", f"s3://{SECRET}@bucket/x", f"s3://bucket/x?secret={SECRET}"):
        with pytest.raises(InvalidRequest) as refused:
            RemotePlace(url)
        assert SECRET not in str(refused.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    s3fs.S3FileSystem.clear_instance_cache()
    place = RemotePlace(f"{s3_server}/x")
    proxy.strike("cut-before", times=10_000)
    with pytest.raises(OutcomeUnknown) as failed:
        place.replace("a", b"1")
    assert SECRET not in "".join(traceback.format_exception(failed.value))


def test_a_gateway_without_checksums_gets_none(place, proxy, monkeypatch, s3_server):
    """Old gateways refuse the checksums that newer clients send; the usual setting of AWS clients turns them off."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    s3fs.S3FileSystem.clear_instance_cache()
    config = RemotePlace(f"{s3_server}/x")._fs
    config.connect()
    assert config.s3.meta.config.request_checksum_calculation == "when_required"
