"""Memory for decoded rows: what one team takes, the others keep; and what a hostile body costs."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.api.load import decoded_bytes
from ptkstore.api.load.decoded_bytes import DecodedShares
from ptkstore.errors import TooManyRequests, Unavailable
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.support.world import trips


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_bytes, "WAIT_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_team_has_its_share_and_all_have_what_there_is() -> None:
    shares = DecodedShares(100, 50)
    with shares.of("a") as first, shares.of("a") as second, shares.of("b") as other, shares.of("c") as last:
        first.grow_to(40)
        with pytest.raises(TooManyRequests, match="50 bytes"):
            second.grow_to(11)
        second.grow_to(10)
        other.grow_to(1_000)  # a share is all that one body may need
        assert (first.held, second.held, other.held) == (40, 10, 50)
        with pytest.raises(Unavailable, match="later"):
            last.grow_to(1)
        first.grow_to(30)
        assert first.held == 40
    with shares.of("a") as again:
        again.grow_to(50)
        assert again.held == 50


def test_a_body_waits_for_its_first_bytes_and_for_no_more() -> None:
    shares, begun = DecodedShares(100, 50), threading.Event()
    waited: list[int] = []

    def wait() -> None:
        with shares.of("a") as second:
            begun.set()
            second.grow_to(30)
            waited.append(second.held)

    with shares.of("a") as first:
        first.grow_to(30)
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert begun.wait(PATIENCE_SECONDS)
        with shares.of("a") as third:
            third.grow_to(20)
            with pytest.raises(TooManyRequests):
                third.grow_to(21)
        assert waited == []
    until(lambda: waited == [30])
    waiting.join()


READ = """
import resource, sys
from pathlib import Path
from ptkstore.api.limits import Limits
from ptkstore.api.rows.bodies import PARQUET, table_in
from ptkstore.errors import PtkStoreError
from tests.support.world import SCHEMA

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
for name in sys.argv[1:]:
    try:
        table_in(Path(name).read_bytes(), PARQUET, SCHEMA, Limits())
    except PtkStoreError as error:
        print(error.code)
print(peak() - before)
"""


@pytest.mark.long
def test_small_bodies_of_huge_cells_cost_a_process_hardly_any_memory(tmp_path: Path) -> None:
    huge = pa.array(["x" * (160 * 2**20)])
    files = []
    for name, options in {"dictionary": {}, "plain": {"use_dictionary": False}}.items():
        files.append(tmp_path / name)
        pq.write_table(trips([0.1], zone=huge), files[-1], compression="zstd", **options)
        assert files[-1].stat().st_size < 20_000
    child = subprocess.run(
        [sys.executable, "-c", READ, *map(str, files)], check=True, capture_output=True, text=True
    )
    *codes, grown = child.stdout.split()
    assert codes == ["too-large"] * 2
    assert int(grown) < 64 * 2**20  # read, they take 480 MiB and more
