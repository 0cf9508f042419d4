"""A consumer's credentials read the lake and can do nothing else; the store itself enforces it."""

from __future__ import annotations

import json
import os
import secrets
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs

from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.adapters.objects import FsspecLake, FsspecRawZone
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import Unavailable
from tests.support.lake_reader import READER
from tests.support.published import PTK, a_version, content

pytestmark = pytest.mark.real


@contextmanager
def enforcing(endpoint: str) -> Iterator[None]:
    """The server checks policies meanwhile, which it does not do for tests otherwise."""

    def after(requests: str) -> None:
        request = urllib.request.Request(
            f"{endpoint}/moto-api/reset-auth", requests.encode(), {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request, timeout=60).close()

    after("0")
    try:
        yield
    finally:
        after("inf")


@pytest.fixture
def reader(s3_server: str) -> Iterator[tuple[str, dict[str, str]]]:
    """A bucket for a lake, with one named alike for a raw zone, and the credentials of a reader."""
    endpoint, bucket = os.environ["AWS_ENDPOINT_URL"], f"ptk-{secrets.token_hex(4)}"
    fsspec.filesystem("s3").mkdir(bucket)
    fsspec.filesystem("s3").mkdir(f"{bucket}-raw")
    iam = boto3.client("iam", endpoint_url=endpoint)
    iam.create_user(UserName=bucket)
    policy = json.dumps(READER).replace("LAKE", bucket)
    iam.put_user_policy(UserName=bucket, PolicyName="reader", PolicyDocument=policy)
    key = iam.create_access_key(UserName=bucket)["AccessKey"]
    yield (
        f"s3://{bucket}",
        {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]},
    )
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.long
def test_a_reader_reads_the_lake_and_writes_nothing(reader, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket, credentials = reader
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"hour": [8]}), buffer)
    files = content(buffer.getvalue().to_pybytes())
    version = a_version(files)
    FsspecLake(f"{bucket}/lake").put_version(version, files)
    window, key = WindowId("taxi", 0), secrets.token_bytes(32)
    FsspecRawZone(f"{bucket}-raw/rows", AesGcmSealer()).write_part(window, 0, pa.table({"hour": [8]}), key)

    for name, value in credentials.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    with enforcing(os.environ["AWS_ENDPOINT_URL"]):
        lake = FsspecLake(f"{bucket}/lake")
        assert lake.read_version(PTK, 1) == (version.content, files)
        assert lake.ptk_ids() == (PTK,)
        url = lake.manifest_url(PTK, 1)
        (name,) = files
        with fsspec.open(f"{url.rpartition('/')[0]}/{name}") as file:  # any Parquet reader
            assert pq.read_table(file).to_pydict() == {"hour": [8]}
        again = a_version(files, 2)
        for act in (
            lambda: lake.put_version(again, files),
            lambda: lake.remove(f"ptks/{PTK}/v00000001/{name}"),
        ):
            with pytest.raises(Unavailable, match=r"\(AccessDenied\)"):
                act()
        raw = FsspecRawZone(f"{bucket}-raw/rows", AesGcmSealer())
        with pytest.raises(Unavailable):
            raw.read_part(raw.part_url(window, 0), key)
        with pytest.raises(Unavailable):
            raw.files()
    assert FsspecLake(f"{bucket}/lake").read_version(PTK, 1) == (version.content, files)
