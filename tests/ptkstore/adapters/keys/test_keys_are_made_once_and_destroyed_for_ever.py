from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ptkstore.adapters.keys import FileKeyStore, files
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import (
    Conflict,
    CorruptObject,
    InvalidRequest,
    InvariantBroken,
    NameTaken,
    UnknownName,
    WindowGone,
)

WINDOW = WindowId("taxi", 3)
NOW = datetime(2026, 1, 5, tzinfo=UTC)
HOUR = timedelta(hours=1)


def all_files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_batches_are_noted_until_the_key_of_their_window_is_destroyed(
    root: Path, store: FileKeyStore
) -> None:
    tokens = tuple(str(number) * 32 for number in range(3))
    store.sealing_key(WINDOW)
    for token in (*tokens, tokens[0]):
        store.note_batch(WINDOW, token)
    assert FileKeyStore(root).noted_batches(WINDOW) == tokens
    assert store.noted_batches(WindowId("taxi", 4)) == ()
    assert store.windows("taxi") == (WINDOW,)
    store.destroy_window(WINDOW)
    assert store.noted_batches(WINDOW) == ()
    with pytest.raises(WindowGone):
        store.note_batch(WINDOW, tokens[0])
    assert [path.name for path in (root / "windows" / "taxi").iterdir()] == ["3.gone"]


def test_a_note_that_a_crash_tore_hides_none_of_the_others(root: Path, store: FileKeyStore) -> None:
    store.note_batch(WINDOW, "a" * 32)
    with (root / "windows" / "taxi" / "3.batches").open("a") as file:
        file.write("\nbbbb")
    store.note_batch(WINDOW, "c" * 32)
    assert store.noted_batches(WINDOW) == ("a" * 32, "c" * 32)
    store.forget_batches(WINDOW)
    store.forget_batches(WINDOW)
    assert store.noted_batches(WINDOW) == ()


@pytest.mark.parametrize("token", ["", "a", "A" * 32, "a" * 31 + "\n", "../" * 11])
def test_only_tokens_are_noted(store: FileKeyStore, token: str) -> None:
    with pytest.raises(InvalidRequest):
        store.note_batch(WINDOW, token)


def test_a_window_keeps_its_key_over_restarts(root: Path, store: FileKeyStore) -> None:
    key = store.sealing_key(WINDOW)
    assert len(key) == 32
    assert FileKeyStore(root).sealing_key(WINDOW) == key


def test_every_window_and_draft_has_a_key_of_its_own(store: FileKeyStore) -> None:
    store.create_stream("bikes")
    keys = [store.sealing_key(WindowId("taxi", index)) for index in range(3)]
    keys += [
        store.sealing_key(WindowId("bikes", 0)),
        store.draft_key("taxi.0.a"),
        store.draft_key("taxi.0.b"),
    ]
    assert len(set(keys)) == 6


def test_a_destroyed_window_key_is_nowhere_and_never_made_anew(root: Path, store: FileKeyStore) -> None:
    key = store.sealing_key(WINDOW)
    assert any(key in path.read_bytes() for path in all_files(root))
    store.destroy_window(WINDOW)
    store.destroy_window(WINDOW)
    assert not any(key in path.read_bytes() for path in all_files(root))
    with pytest.raises(WindowGone):
        FileKeyStore(root).sealing_key(WINDOW)


def test_the_bytes_of_a_destroyed_key_are_overwritten_before_the_name_goes(
    root: Path, store: FileKeyStore
) -> None:
    key = store.sealing_key(WINDOW)
    second_name = root.parent / "still-linked"
    os.link(root / "windows/taxi/3.key", second_name)
    store.destroy_window(WINDOW)
    assert second_name.read_bytes() == bytes(len(key))


def test_a_window_destroyed_before_its_first_use_never_gets_a_key(store: FileKeyStore) -> None:
    store.destroy_window(WINDOW)
    with pytest.raises(WindowGone):
        store.sealing_key(WINDOW)


def test_a_draft_key_is_made_once_and_destroyed_for_ever(root: Path, store: FileKeyStore) -> None:
    key = store.draft_key("taxi.0.a")
    assert FileKeyStore(root).draft_key("taxi.0.a") == key
    store.destroy_draft("taxi.0.a")
    store.destroy_draft("taxi.0.a")
    with pytest.raises(WindowGone):
        store.draft_key("taxi.0.a")
    assert not any(key in path.read_bytes() for path in all_files(root))


def test_drafts_with_a_key_are_listed_until_it_is_destroyed(root: Path, store: FileKeyStore) -> None:
    assert store.draft_ids() == ()
    store.draft_key("taxi.1.b")
    store.draft_key("taxi.0.a")
    assert FileKeyStore(root).draft_ids() == ("taxi.0.a", "taxi.1.b")
    store.destroy_draft("taxi.1.b")
    store.destroy_draft("taxi.2.never-made")
    assert store.draft_ids() == ("taxi.0.a",)


def test_a_secret_is_kept_and_never_replaced(root: Path, store: FileKeyStore) -> None:
    store.put_secret("sub_1", "whsec_one")
    store.put_secret("sub_1", "whsec_one")
    with pytest.raises(NameTaken) as caught:
        store.put_secret("sub_1", "whsec_two")
    assert "whsec" not in str(caught.value)
    assert FileKeyStore(root).secrets_of("sub_1", NOW) == ("whsec_one",)
    with pytest.raises(UnknownName):
        store.secrets_of("sub_2", NOW)


def test_a_rotated_secret_signs_beside_the_new_one_until_the_overlap_ends(
    root: Path, store: FileKeyStore
) -> None:
    store.put_secret("sub_1", "whsec_one")
    store.rotate_secret("sub_1", "whsec_two", NOW, NOW + HOUR)
    store = FileKeyStore(root)
    assert store.secrets_of("sub_1", NOW) == ("whsec_two", "whsec_one")
    store.rotate_secret("sub_1", "whsec_three", NOW + HOUR / 2, NOW + 3 * HOUR)
    assert store.secrets_of("sub_1", NOW + HOUR / 2) == ("whsec_three", "whsec_two", "whsec_one")
    assert store.secrets_of("sub_1", NOW + HOUR) == ("whsec_three", "whsec_two")
    assert store.secrets_of("sub_1", NOW + 3 * HOUR) == ("whsec_three",)
    with pytest.raises(UnknownName):
        store.rotate_secret("sub_2", "whsec_x", NOW, NOW)


def test_so_many_secrets_sign_at_once_and_no_more_until_all_are_ended(
    root: Path, store: FileKeyStore
) -> None:
    store.put_secret("sub_1", "whsec_0")
    for number in range(1, 4):
        store.rotate_secret("sub_1", f"whsec_{number}", NOW, NOW + HOUR)
    with pytest.raises(Conflict) as caught:
        store.rotate_secret("sub_1", "whsec_4", NOW, NOW + HOUR)
    assert "whsec" not in str(caught.value)
    store.rotate_secret("sub_1", "whsec_leaked", NOW, NOW)
    assert store.secrets_of("sub_1", NOW) == ("whsec_leaked",)
    assert (root / "webhooks" / "sub_1.secret").read_text() == "whsec_leaked"


def test_a_destroyed_secret_is_gone_and_so_are_its_predecessors(root: Path, store: FileKeyStore) -> None:
    store.put_secret("sub_1", "whsec_one")
    store.rotate_secret("sub_1", "whsec_two", NOW, NOW + HOUR)
    for _ in range(2):
        store.destroy_secret("sub_1")
    with pytest.raises(UnknownName):
        store.secrets_of("sub_1", NOW)
    assert list((root / "webhooks").iterdir()) == []


def test_only_the_owner_may_look(root: Path, store: FileKeyStore) -> None:
    store.sealing_key(WINDOW)
    store.draft_key("d")
    store.put_secret("s", "x")
    store.destroy_draft("d")
    for path in [root, *root.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_directory_that_others_may_enter_is_refused(root: Path, store: FileKeyStore) -> None:
    (root / "windows").chmod(0o750)
    with pytest.raises(InvalidRequest, match="0700"):
        FileKeyStore(root)


def test_creating_a_stream_again_changes_nothing(root: Path, store: FileKeyStore) -> None:
    before = {path: path.read_bytes() for path in all_files(root)}
    FileKeyStore(root).create_stream("taxi")
    assert {path: path.read_bytes() for path in all_files(root)} == before


def test_an_unknown_stream_has_no_keys(store: FileKeyStore) -> None:
    for use in (store.sealing_key, store.destroy_window):
        with pytest.raises(UnknownName):
            use(WindowId("bikes", 0))
    store.create_stream("bikes")
    assert len(store.sealing_key(WindowId("bikes", 0))) == 32


def test_a_lost_split_key_is_not_made_anew_beside_windows(root: Path, store: FileKeyStore) -> None:
    store.sealing_key(WINDOW)
    (root / "streams/taxi.split").unlink()
    with pytest.raises(InvariantBroken, match="restore"):
        store.create_stream("taxi")
    assert not (root / "streams/taxi.split").exists()
    store.destroy_window(WINDOW)
    assert not (root / "windows/taxi/3.key").exists()


def test_a_key_file_of_another_length_is_no_key(root: Path, store: FileKeyStore) -> None:
    store.sealing_key(WINDOW)
    (root / "windows/taxi/3.key").write_bytes(b"short")
    with pytest.raises(CorruptObject):
        store.sealing_key(WINDOW)


@pytest.mark.parametrize("name", ["..", "../up", "a/b", "", ".hidden", "a\0b", "a\n", "x" * 129, "-a", "ä"])
def test_names_cannot_leave_their_directory(root: Path, store: FileKeyStore, name: str) -> None:
    before = sorted(root.parent.rglob("*"))
    uses: list[Callable[[], object]] = [
        lambda: store.create_stream(name),
        lambda: store.sealing_key(WindowId(name, 0)),
        lambda: store.destroy_window(WindowId(name, 0)),
        lambda: store.draft_key(name),
        lambda: store.destroy_draft(name),
        lambda: store.put_secret(name, "x"),
        lambda: store.secrets_of(name, NOW),
        lambda: store.rotate_secret(name, "x", NOW, NOW),
        lambda: store.destroy_secret(name),
    ]
    for use in uses:
        with pytest.raises(InvalidRequest):
            use()
    assert sorted(root.parent.rglob("*")) == before


@pytest.mark.parametrize("index", [-1, True, "0", 1.0, None])
def test_a_window_index_is_a_natural_number(store: FileKeyStore, index: object) -> None:
    with pytest.raises(InvalidRequest):
        store.sealing_key(WindowId("taxi", index))  # type: ignore[arg-type]


DIES_BETWEEN = """
import os, signal, sys
from pathlib import Path
from ptkstore.adapters.keys import FileKeyStore, files
from ptkstore.domain.streams.windows import WindowId
store = FileKeyStore(Path(sys.argv[1]))
setattr({target}, lambda *_, **options: options or os.kill(os.getpid(), signal.SIGKILL))
store.{call}(WindowId("taxi", 3))
"""


def killed_in(root: Path, *, call: str, at: str) -> None:
    code = DIES_BETWEEN.format(target=at, call=call)
    done = subprocess.run([sys.executable, "-c", code, str(root)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_a_writer_killed_before_the_name_appears_leaves_no_key(root: Path, store: FileKeyStore) -> None:
    killed_in(root, call="sealing_key", at='os, "link"')
    assert not (root / "windows/taxi/3.key").exists()
    assert store.sealing_key(WINDOW) == FileKeyStore(root).sealing_key(WINDOW)
    assert [path.name for path in (root / "windows/taxi").iterdir()] == ["3.key"]


def test_a_writer_killed_right_after_the_name_appears_leaves_one_key_that_can_be_destroyed(
    root: Path, store: FileKeyStore
) -> None:
    killed_in(root, call="sealing_key", at='Path, "unlink"')
    assert (root / "windows/taxi/3.key").samefile(root / "windows/taxi/3.key.new")
    key = store.sealing_key(WINDOW)
    store.destroy_window(WINDOW)
    assert not any(key in path.read_bytes() for path in all_files(root))


def test_a_destruction_killed_half_way_stays_a_destruction(root: Path, store: FileKeyStore) -> None:
    key = store.sealing_key(WINDOW)
    killed_in(root, call="destroy_window", at='files, "destroy"')
    assert (root / "windows/taxi/3.key").read_bytes() == key
    with pytest.raises(WindowGone):
        store.sealing_key(WINDOW)
    store.destroy_window(WINDOW)
    assert not any(key in path.read_bytes() for path in all_files(root))


def test_a_twin_left_by_a_crash_goes_with_its_key(root: Path, store: FileKeyStore) -> None:
    key = store.sealing_key(WINDOW)
    os.link(root / "windows/taxi/3.key", root / "windows/taxi/3.key.new")
    store.destroy_window(WINDOW)
    assert not any(key in path.read_bytes() for path in all_files(root))
    assert [path.name for path in (root / "windows/taxi").iterdir()] == ["3.gone"]


def test_creating_over_a_file_fails_and_keeps_it(tmp_path: Path) -> None:
    files.create(tmp_path / "k", b"first")
    with pytest.raises(FileExistsError):
        files.create(tmp_path / "k", b"second")
    assert (tmp_path / "k").read_bytes() == b"first"
