"""Trees to keep files in: a real directory and a real S3 protocol."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from ptkstore.adapters.keys import AesGcmSealer
from tests.support.s3 import serving


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as environment, serving() as endpoint:
        environment.setenv("AWS_ENDPOINT_URL", endpoint)
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AWS_ACCESS_KEY_ID", "test")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "test")
        fsspec.filesystem("s3").mkdir("ptk-tests")
        yield "s3://ptk-tests"


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.real)])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "tree")
    return f"{request.getfixturevalue('s3_server')}/{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Bytes:
    """Reaches into a tree behind the adapters' back, as a fault or an attacker does."""

    root: str

    def _split(self, path: str) -> tuple[fsspec.AbstractFileSystem, str]:
        filesystem, root = fsspec.core.url_to_fs(self.root)
        return filesystem, f"{root}/{path}"

    def get(self, path: str) -> bytes:
        filesystem, full = self._split(path)
        content: bytes = filesystem.cat_file(full)
        return content

    def put(self, path: str, content: bytes) -> None:
        filesystem, full = self._split(path)
        filesystem.makedirs(full.rpartition("/")[0], exist_ok=True)
        filesystem.pipe_file(full, content)

    def remove(self, path: str) -> None:
        filesystem, full = self._split(path)
        filesystem.rm_file(full)

    def all(self) -> dict[str, bytes]:
        filesystem, root = fsspec.core.url_to_fs(self.root)
        return {name.removeprefix(f"{root}/"): filesystem.cat_file(name) for name in filesystem.find(root)}


@pytest.fixture
def stored(tree: str) -> Bytes:
    return Bytes(tree)


@pytest.fixture(scope="session")
def sealer() -> AesGcmSealer:
    return AesGcmSealer()


@pytest.fixture
def key() -> bytes:
    return secrets.token_bytes(32)


@pytest.fixture
def rows() -> pa.Table:
    return pa.table(
        {
            "zone": ["alpha", "beta", "gamma"],
            "speed": [1.5, 2.5, float("nan")],
            "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, type=pa.timestamp("us", tz="UTC")),
            "ptk_hash": pa.array([0, 2**63, 2**64 - 1], type=pa.uint64()),
        }
    )
