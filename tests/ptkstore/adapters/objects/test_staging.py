from __future__ import annotations

import secrets
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecRawZone, FsspecStaging
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import CorruptObject, InvalidRequest, NameTaken, UnknownName
from tests.ptkstore.adapters.objects.conftest import Bytes

FILES = {"a-00.parquet": b"content-of-a", "b-11.parquet": b""}


@pytest.fixture
def staging(tree: str, sealer: AesGcmSealer) -> FsspecStaging:
    return FsspecStaging(tree, sealer)


def test_a_draft_comes_back_whole_or_in_part(staging: FsspecStaging, key: bytes) -> None:
    staging.write("taxi.0.d1", FILES, key)
    assert staging.read("taxi.0.d1", list(FILES), key) == FILES
    assert staging.read("taxi.0.d1", ["b-11.parquet"], key) == {"b-11.parquet": b""}
    assert staging.drafts() == ("taxi.0.d1",)


def test_writing_the_same_draft_again_changes_nothing_and_other_content_is_refused(
    staging: FsspecStaging, stored: Bytes, key: bytes
) -> None:
    staging.write("d1", FILES, key)
    before = stored.all()
    staging.write("d1", FILES, key)
    with pytest.raises(NameTaken):
        staging.write("d1", {"a-00.parquet": b"another state"}, key)
    assert stored.all() == before


def test_a_deleted_draft_is_gone_and_others_stay(staging: FsspecStaging, key: bytes) -> None:
    staging.write("d1", FILES, key)
    staging.write("d10", FILES, key)
    staging.delete("d1")
    staging.delete("d1")
    assert staging.drafts() == ("d10",)
    with pytest.raises(UnknownName):
        staging.read("d1", ["a-00.parquet"], key)
    assert staging.read("d10", list(FILES), key) == FILES


def test_there_are_no_drafts_at_first(staging: FsspecStaging) -> None:
    assert staging.drafts() == ()


def test_no_content_is_legible(staging: FsspecStaging, stored: Bytes, key: bytes) -> None:
    staging.write("d1", FILES, key)
    assert sorted(stored.all()) == ["_staging/d1/a-00.parquet", "_staging/d1/b-11.parquet"]
    assert not any(b"content" in data for data in stored.all().values())


def test_changed_swapped_and_foreign_files_are_refused(
    staging: FsspecStaging, stored: Bytes, key: bytes
) -> None:
    staging.write("d1", FILES, key)
    staging.write("d2", FILES, key)
    intact = stored.get("_staging/d1/a-00.parquet")
    wrong = [intact[:i] + bytes([intact[i] ^ 1]) + intact[i + 1 :] for i in (0, 11, 12, len(intact) - 1)]
    wrong += [
        intact[:-1],
        b"",
        stored.get("_staging/d2/a-00.parquet"),
        stored.get("_staging/d1/b-11.parquet"),
    ]
    for data in wrong:
        stored.put("_staging/d1/a-00.parquet", data)
        with pytest.raises(CorruptObject):
            staging.read("d1", ["a-00.parquet"], key)
    stored.put("_staging/d1/a-00.parquet", intact)
    assert staging.read("d1", ["a-00.parquet"], key) == {"a-00.parquet": b"content-of-a"}
    with pytest.raises(CorruptObject):
        staging.read("d1", ["a-00.parquet"], secrets.token_bytes(32))


@pytest.mark.parametrize("name", ["..", "a/b", "", ".hidden", "a\0"])
def test_names_cannot_leave_their_place(staging: FsspecStaging, stored: Bytes, key: bytes, name: str) -> None:
    for draft_id, file in ((name, "ok"), ("ok", name)):
        with pytest.raises(InvalidRequest):
            staging.write(draft_id, {file: b"x"}, key)
        with pytest.raises(InvalidRequest):
            staging.read(draft_id, [file], key)
    with pytest.raises(InvalidRequest):
        staging.delete(name)
    assert stored.all() == {}


def test_a_local_staging_area_is_for_its_owner_alone(
    tmp_path: Path, sealer: AesGcmSealer, key: bytes
) -> None:
    root = tmp_path / "staging"
    FsspecStaging(str(root), sealer).write("d1", FILES, key)
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_staging_and_rows_share_a_tree_without_seeing_each_other(
    tree: str, staging: FsspecStaging, sealer: AesGcmSealer, key: bytes, rows: pa.Table
) -> None:
    zone, window = FsspecRawZone(staging.url, sealer), WindowId("staging", 0)
    assert zone.url == staging.url == FsspecStaging(staging.url, sealer).url
    zone.write_part(window, 0, rows, key)
    staging.write("taxi.0.aa", FILES, key)
    assert staging.drafts() == ("taxi.0.aa",)
    assert zone.files() == zone.files("staging") == ("staging/0/parts/0.parquet",)
    staging.delete("taxi.0.aa")
    assert zone.files() == ("staging/0/parts/0.parquet",)
    staging.write("taxi.0.aa", FILES, key)
    zone.delete_window(window)
    assert staging.read("taxi.0.aa", list(FILES), key) == FILES
