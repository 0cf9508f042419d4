"""Bundles: one archive per content, and nothing else passes for one."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable

import pytest

from ptklib.families import TEAM_CODE as LIBRARY_NAME
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.ptks.bundles import (
    BUNDLE_BYTES_MAX,
    BUNDLE_FILES_MAX,
    TEAM_CODE,
    assurance_of,
    bundle_of,
    pack,
    unpack,
)
from ptkstore.errors import InvalidRequest, TooLarge

FILES = {"own.py": b"x = 1\n", "deep/er/data.json": b"{}", "empty.py": b""}


def test_equal_files_make_equal_bytes_in_whatever_order_they_come() -> None:
    packed = pack(FILES)
    assert packed == pack(dict(reversed(FILES.items())))
    assert unpack(packed) == FILES


def test_the_archive_is_one_that_tar_reads_and_tells_no_time_owner_or_right() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(FILES))) as archive:
        members = archive.getmembers()
        assert [m.name for m in members] == sorted(FILES)
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {
            (0, 0, 0, "", "", 0o644)
        }


@pytest.mark.parametrize(
    "path",
    [
        "../own.py",
        "/etc/passwd",
        "a/../b.py",
        "a//b.py",
        ".hidden",
        "a/.git/config",
        "",
        "a/",
        "a\\b.py",
        "ä.py",
        "a b.py",
        "x" * 101,
        "/".join("abcdefghi"),
        "a\nb.py",
    ],
)
def test_a_path_that_leads_elsewhere_or_hides_is_not_packed(path: str) -> None:
    with pytest.raises(InvalidRequest):
        pack({path: b""})


def test_two_paths_that_some_disks_take_for_one_are_not_packed() -> None:
    with pytest.raises(InvalidRequest, match="upper and lower case"):
        pack({"own.py": b"", "Own.py": b""})


def test_a_bundle_is_small() -> None:
    with pytest.raises(TooLarge):
        pack({"own.py": bytes(BUNDLE_BYTES_MAX)})
    with pytest.raises(TooLarge):
        unpack(bytes(BUNDLE_BYTES_MAX + 1))
    with pytest.raises(InvalidRequest, match="files"):
        pack({f"f{i}.py": b"" for i in range(BUNDLE_FILES_MAX + 1)})
    with pytest.raises(InvalidRequest):
        pack({})


def archive_of(*entries: tarfile.TarInfo, format: int = tarfile.USTAR_FORMAT) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=format) as archive:
        for entry in entries:
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    return sink.getvalue()


def entry(name: str = "own.py", **fields: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.mode = 0o644
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def zip_of(content: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("own.py", content)
    return sink.getvalue()


def sized(size: bytes) -> bytes:
    header = bytearray(pack({"own.py": b"x"}))
    header[124 : 124 + len(size)] = size
    return bytes(header)


HOSTILE: dict[str, Callable[[], bytes]] = {
    "symbolic link": lambda: archive_of(entry(type=tarfile.SYMTYPE, linkname="/etc/passwd")),
    "hard link": lambda: archive_of(entry(type=tarfile.LNKTYPE, linkname="own.py")),
    "device": lambda: archive_of(entry(type=tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "pipe": lambda: archive_of(entry(type=tarfile.FIFOTYPE)),
    "folder": lambda: archive_of(entry("own", type=tarfile.DIRTYPE)),
    "path that leads out": lambda: archive_of(entry("../own.py")),
    "absolute path": lambda: archive_of(entry("/own.py")),
    "time": lambda: archive_of(entry(mtime=1)),
    "owner": lambda: archive_of(entry(uid=1000)),
    "right to run": lambda: archive_of(entry(mode=0o4755)),
    "the same twice": lambda: archive_of(entry(), entry()),
    "another order": lambda: archive_of(entry("b.py"), entry("a.py")),
    "padding": lambda: archive_of(entry()),
    "long names of GNU": lambda: archive_of(entry("d/" * 60 + "own.py"), format=tarfile.GNU_FORMAT),
    "headers of pax": lambda: archive_of(entry("ä" * 60 + ".py"), format=tarfile.PAX_FORMAT),
    "zip bomb": lambda: zip_of(bytes(50_000_000)),
    "gzip": lambda: gzip.compress(pack(FILES)),
    "something behind its end": lambda: pack(FILES) + bytes(512),
    "cut": lambda: pack(FILES)[:-1],
    "cut within a file": lambda: pack(FILES)[:600],
    "nothing": lambda: b"",
    "noughts": lambda: bytes(1024),
    "a size beyond its end": lambda: sized(b"77777777777"),
    "a negative size": lambda: sized(b"-0000000001"),
    "a size in base 256": lambda: sized(b"\x80" + bytes(11)),
    "a size that is no number": lambda: sized(b"xxxxxxxxxxx"),
    "many files": lambda: archive_of(*(entry(f"f{i:04}.py") for i in range(BUNDLE_FILES_MAX + 1))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_that_is_not_as_we_pack_it_is_no_bundle(name: str) -> None:
    with pytest.raises(InvalidRequest):
        unpack(HOSTILE[name]())


def test_team_code_is_its_owners_word_and_names_its_bundle() -> None:
    assert TEAM_CODE == LIBRARY_NAME
    spec = {"family": TEAM_CODE, "params": {"bundle": "a" * 64}}
    assert (bundle_of(spec), assurance_of(spec)) == ("a" * 64, Assurance.ASSERTED)
    assert bundle_of({"family": "CountFeaturizer", "params": {"bundle": "x"}}) is None
    assert assurance_of({"family": "CountFeaturizer", "params": {}}) is Assurance.LIBRARY


@pytest.mark.parametrize("params", [{}, {"bundle": "../x"}, {"bundle": 5}, {"bundle": "A" * 64}, None])
def test_team_code_without_a_bundle_is_refused(params: object) -> None:
    with pytest.raises(InvalidRequest):
        bundle_of({"family": TEAM_CODE, "params": params})
