"""Bundles of team code in a tree: stored whole, verified, and as young as their last upload."""

from __future__ import annotations

import os
import secrets
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fsspec
import pytest
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT  # type: ignore[attr-defined]
from moto.s3.models import s3_backends

from ptkstore.adapters.objects import FsspecBundles
from ptkstore.adapters.objects.places import place_at
from ptkstore.domain.ptks.bundles import bundle_path, sha256_of
from ptkstore.errors import CorruptObject, UnknownName

CODE = b"code" * 1000
NAME = sha256_of(CODE)
DAYS = timedelta(days=9)


def older(root: str) -> None:
    """Let nine days pass for every file of a tree."""
    if root.startswith("memory://"):
        filesystem, folder = fsspec.core.url_to_fs(root)
        for path in filesystem.find(folder):
            filesystem.store[path].created -= DAYS
    elif root.startswith("s3://"):
        bucket, _, folder = root.removeprefix("s3://").partition("/")
        for name, key in s3_backends[ACCOUNT]["aws"].buckets[bucket].keys.items():
            if name.startswith(f"{folder}/"):
                key.last_modified = datetime.now(UTC).replace(tzinfo=None) - DAYS
    else:
        then = time.time() - DAYS.total_seconds()
        for path in Path(root).rglob("*"):
            os.utime(path, (then, then))


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.real)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "tree")
    if request.param == "memory":
        return f"memory://{secrets.token_hex(8)}"
    return f"{request.getfixturevalue('s3_server')}/{secrets.token_hex(4)}"


@pytest.mark.long
def test_a_bundle_that_comes_again_is_young_again(root: str) -> None:
    bundles = FsspecBundles(root)
    assert bundles.put(CODE) == NAME
    older(root)
    assert bundles.age(NAME) >= DAYS.total_seconds()
    assert bundles.put(CODE) == NAME
    assert bundles.age(NAME) < DAYS.total_seconds() / 2
    assert bundles.get(NAME) == CODE


def test_a_bundle_that_was_changed_is_refused_and_whole_once_it_comes_again(root: str) -> None:
    bundles = FsspecBundles(root)
    bundles.put(CODE)
    place_at(root, private=False).replace(bundle_path(NAME), b"other")
    with pytest.raises(CorruptObject):
        bundles.get(NAME)
    assert bundles.put(CODE) == NAME
    assert bundles.get(NAME) == CODE


def test_a_bundle_that_is_not_there_has_no_age(root: str) -> None:
    with pytest.raises(UnknownName):
        FsspecBundles(root).age(NAME)


def test_old_claims_of_what_never_came_are_dropped_and_others_stay(root: str) -> None:
    bundles = FsspecBundles(root)
    bundles.put(CODE)
    for team, name in (("ads", NAME), ("ads", "a" * 64), ("taxi", "a" * 64)):
        bundles.claim(team, name, 7)
    bundles.drop_claims("ads", DAYS.total_seconds())
    assert set(bundles.claimed("ads")) == {NAME, "a" * 64}  # young
    older(root)
    bundles.claim("ads", "b" * 64, 7)
    bundles.drop_claims("ads", DAYS.total_seconds())
    assert set(bundles.claimed("ads")) == {NAME, "b" * 64}
    assert bundles.claimed("taxi") == {"a" * 64: 7}
    bundles.claim("taxi", "a" * 64, 7)  # the upload comes again
    bundles.drop_claims("taxi", DAYS.total_seconds())
    assert bundles.claimed("taxi") == {"a" * 64: 7}
