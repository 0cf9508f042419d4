"""Loading Feast costs no more than it must, and changes nothing for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOADS = """
from pathlib import Path
import typeguard
from ptkstore.adapters.feast.loading import load_feast

before = typeguard.typechecked
load_feast(Path())
assert typeguard.typechecked is before
import feast
checked = [
    (one.__name__, name)
    for one in (feast.FeatureView, feast.Entity, feast.FileSource, feast.FeatureService, feast.BigQuerySource)
    for name, method in vars(one).items()
    if "check_argument_types_internal" in getattr(getattr(method, "__code__", None), "co_names", ())
]
assert not checked, checked

@typeguard.typechecked
def doubled(number: int) -> int:
    return 2 * number

try:
    doubled("a")
except typeguard.TypeCheckError:
    print("others are checked")
"""


def test_feast_is_loaded_without_checks_at_run_time_and_others_keep_theirs(tmp_path: Path) -> None:
    script = tmp_path / "loads.py"
    script.write_text(LOADS)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("others are checked", 0), done.stderr
