from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest

from ptklib import HistoricalStatistics, load_state
from ptkstore.adapters.objects import FsspecLake
from ptkstore.domain.versions.versions import table_file_name
from ptkstore.errors import CorruptObject, InvalidRequest, InvariantBroken, Unavailable, UnknownName
from tests.ptkstore.adapters.objects.conftest import Bytes
from tests.support import full_disk
from tests.support.published import PTK, a_version, content

FOLDER = "ptks/taxi.speed/v00000001"
MANIFEST = f"{FOLDER}/manifest.json"


@pytest.fixture
def lake(tree: str) -> FsspecLake:
    return FsspecLake(tree)


def test_a_version_comes_back_verified(lake: FsspecLake, stored: Bytes) -> None:
    files = content(b"one", b"two")
    version = a_version(files, tau=0.5)
    assert not lake.holds(version)
    lake.put_version(version, files)
    assert lake.holds(version)
    assert lake.read_version(PTK, 1) == (json.loads(version.manifest), files)
    assert stored.get(MANIFEST).decode() == version.manifest
    assert sorted(stored.all()) == sorted([MANIFEST, *(f"{FOLDER}/{name}" for name in files)])


def test_placing_the_same_version_again_changes_nothing(lake: FsspecLake, stored: Bytes) -> None:
    files = content(b"one")
    for _ in range(2):
        lake.put_version(a_version(files), files)
    assert len(stored.all()) == 2


def test_a_version_is_never_written_twice(lake: FsspecLake, stored: Bytes) -> None:
    files = content(b"one")
    lake.put_version(a_version(files), files)
    other = a_version(files, tau=0.9)
    with pytest.raises(InvariantBroken, match="never written twice"):
        lake.put_version(other, files)
    assert not lake.holds(other)
    assert lake.holds(a_version(files))


def test_a_content_file_with_other_bytes_in_its_place_stops_the_version(
    lake: FsspecLake, stored: Bytes
) -> None:
    files = content(b"one")
    stored.put(f"{FOLDER}/{next(iter(files))}", b"onE")
    with pytest.raises(InvariantBroken):
        lake.put_version(a_version(files), files)
    assert MANIFEST not in stored.all()


def test_a_version_cut_short_is_not_there_and_can_be_finished(lake: FsspecLake, stored: Bytes) -> None:
    files = content(b"one", b"two")
    stored.put(f"{FOLDER}/{next(iter(files))}", b"one")
    with pytest.raises(UnknownName):
        lake.read_version(PTK, 1)
    assert not lake.holds(a_version(files))
    lake.put_version(a_version(files), files)
    assert lake.read_version(PTK, 1)[1] == files


@pytest.mark.parametrize("wrong", ["changed", "longer", "missing", "additional", "renamed"])
def test_files_that_are_not_what_the_manifest_names_are_never_placed(
    lake: FsspecLake, stored: Bytes, wrong: str
) -> None:
    files = content(b"one", b"two")
    name = next(iter(files))
    given = {
        "changed": {**files, name: b"onE"},
        "longer": {**files, name: b"one!"},
        "missing": {name: b"one"},
        "additional": {**files, "more.parquet": b""},
        "renamed": {**{n: d for n, d in files.items() if n != name}, "x.parquet": b"one"},
    }[wrong]
    with pytest.raises(CorruptObject):
        lake.put_version(a_version(files), given)
    assert stored.all() == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"ptk_id": "taxi.other"},
        {"version": 2},
        {"version": True},
        {"format_version": 2},
        {"files": [{"name": "../../x", "size": 3, "sha256": hashlib.sha256(b"one").hexdigest()}]},
        {"files": [{"name": "manifest.json", "size": 3, "sha256": hashlib.sha256(b"one").hexdigest()}]},
        {"files": [{"name": "a"}]},
        {"files": None},
        {"files": [7]},
    ],
)
def test_a_manifest_of_something_else_is_neither_placed_nor_read(
    lake: FsspecLake, stored: Bytes, changes: dict[str, Any]
) -> None:
    files = content(b"one")
    version = a_version(files, **changes)
    with pytest.raises(CorruptObject):
        lake.put_version(version, {"manifest.json": b"one"} if "manifest.json" in version.manifest else files)
    assert stored.all() == {}
    stored.put(MANIFEST, version.manifest.encode())
    with pytest.raises(CorruptObject):
        lake.read_version(PTK, 1)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"null"])
def test_a_damaged_manifest_is_refused(lake: FsspecLake, stored: Bytes, text: bytes) -> None:
    stored.put(MANIFEST, text)
    with pytest.raises(CorruptObject):
        lake.read_version(PTK, 1)


def test_a_damaged_or_missing_content_file_is_refused_on_read(lake: FsspecLake, stored: Bytes) -> None:
    files = content(b"one", b"two")
    lake.put_version(a_version(files), files)
    path = f"{FOLDER}/{next(iter(files))}"
    for data in (b"onE", b"one ", b""):
        stored.put(path, data)
        with pytest.raises(CorruptObject):
            lake.read_version(PTK, 1)
    stored.remove(path)
    with pytest.raises(CorruptObject):
        lake.read_version(PTK, 1)


def test_nothing_but_the_manifest_and_its_files_is_read(lake: FsspecLake, stored: Bytes) -> None:
    files = content(b"one")
    lake.put_version(a_version(files), files)
    stored.put(f"{FOLDER}/more-00.parquet", b"unwanted")
    stored.put(f"{FOLDER}/.unfinished-1", b"unwanted")
    assert lake.read_version(PTK, 1)[1] == files


def test_the_lake_tells_of_which_ptks_it_holds_anything(lake: FsspecLake, stored: Bytes) -> None:
    assert lake.ptk_ids() == ()
    files = content(b"one")
    lake.put_version(a_version(files), files)
    stored.put("ptks/somebody-elses/v00000001/manifest.json", b"{}")
    assert lake.ptk_ids() == (PTK,)


def test_a_version_that_was_never_placed_is_unknown(lake: FsspecLake) -> None:
    with pytest.raises(UnknownName, match=r"taxi\.speed v2"):
        lake.read_version(PTK, 2)


@pytest.mark.parametrize(
    ("ptk_id", "number"), [("../x", 1), ("taxi", 1), ("taxi.a/b", 1), (PTK, 0), (PTK, 10**8)]
)
def test_names_cannot_leave_their_place(lake: FsspecLake, ptk_id: str, number: int) -> None:
    for use in (lake.read_version, lake.manifest_url):
        with pytest.raises(InvalidRequest):
            use(ptk_id, number)


def test_the_manifest_url_leads_anyone_with_fsspec_to_the_manifest(lake: FsspecLake) -> None:
    files = content(b"one")
    version = a_version(files)
    lake.put_version(version, files)
    url = lake.manifest_url(PTK, 1)
    assert url.endswith(f"/{MANIFEST}")
    with fsspec.open(url, "rb") as file:
        assert file.read() == version.manifest.encode()


def test_ptklib_reads_what_the_lake_wrote(lake: FsspecLake, tree: str) -> None:
    trained = HistoricalStatistics(
        keys=["zone"], values=["speed"], domains={"zone": ["a", "b"]}, bounds={"speed": (0, 60)}, epsilon=1.0
    ).fit(pa.table({"zone": ["a", "b"], "speed": [10.0, 20.0]}))
    state = trained.to_state()
    files = {
        table_file_name(name.removesuffix(".parquet"), hashlib.sha256(data).hexdigest()): data
        for name, data in state.to_files().items()
        if name != "state.json"
    }
    lake.put_version(a_version(files, state=dict(state.meta)), files)
    loaded = load_state(f"{tree}/{FOLDER}")
    assert loaded.tables["statistics"].equals(state.tables["statistics"])
    assert loaded.meta == state.meta


def test_everyone_may_read_a_local_lake_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files = content(b"one")
        FsspecLake(str(tmp_path / "lake")).put_version(a_version(files), files)
    finally:
        os.umask(before)
    paths = [tmp_path / "lake", *(tmp_path / "lake").rglob("*")]
    assert len(paths) == 6
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


def test_a_directory_that_a_crash_left_narrow_is_opened(tmp_path: Path) -> None:
    (tmp_path / "lake" / "ptks").mkdir(parents=True, mode=0o700)
    files = content(b"one")
    FsspecLake(str(tmp_path / "lake")).put_version(a_version(files), files)
    assert stat.S_IMODE((tmp_path / "lake" / "ptks").stat().st_mode) == 0o755


def test_a_probe_is_no_version_and_what_a_dead_one_left_goes(lake: FsspecLake, stored: Bytes) -> None:
    stored.put("probe", b"of a release before")
    if Path(stored.root).is_absolute():
        stored.put(".unfinished-0", b"of a process that died")
    lake.check_writable()
    lake.check_writable()
    assert set(stored.all()) == {"probe"}
    assert lake.ptk_ids() == ()


def test_a_full_disk_takes_no_probe_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    with full_disk.mounted(tmp_path / "disk") as disk:
        lake = FsspecLake(str(disk / "lake"))
        lake.check_writable()
        full_disk.fill(disk)
        with pytest.raises(Unavailable, match="ENOSPC"):
            lake.check_writable()
        full_disk.free(disk)
        lake.check_writable()
        assert [*(disk / "lake").iterdir()] == []
