"""Executes the notebooks beside it, and compares their stored outputs with fresh ones: `make notebooks`.

Noise and time change every number, so numbers are not compared: the words between them are, and the kinds of outputs.
A notebook may run for a minute.
`--write` stores the fresh outputs instead.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).resolve().parent
SECONDS = 60
"""The longest that a notebook may run, its kernel's start included."""

BYTES_MAX = 300_000
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}

PLAIN_TERMINAL = "import os; os.environ['TERM'] = 'dumb'; os.environ.pop('FORCE_COLOR', None)"
"""Commands print no colours and no moving lines; a kernel asks them to."""

_NUMBER = re.compile(r"[-+−]?\d(?:[\d,._:]*\d)?\.?(?:e[-+]?\d+)?")
_HASH = re.compile(r"(?<![\w.])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b…?")
_SPACE = re.compile(r"[\s─━│┃┏┓┗┛┡┩└┘├┤┬┴┼╇-]+")
_PADDING = re.compile(r" (?=[],])|(?<=\[) ")
_OF_MACHINES = re.compile(
    r"(?<![\w.:/])/(?:home|root|tmp|work|usr|opt|var|private|Users|builds?)/|\b[A-Z]:\\"
)


def notebooks() -> list[Path]:
    """Return the notebooks, in the order in which they are read."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """Read a notebook."""
    return nbformat.read(path, as_version=4)


def executed(path: Path) -> Any:
    """Run a notebook in a new kernel and an empty folder; its cells with their fresh outputs.

    Raises
    ------
    CellExecutionError
        A cell failed.
    """
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PTK_")},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYTHONPATH": str(FOLDER.parent / "scenarios"),
            "COLUMNS": "110",
            "TZ": "UTC",
        }
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            record_timing=False,
            extra_arguments=[f"--IPKernelApp.exec_lines={PLAIN_TERMINAL}"],
            resources={"metadata": {"path": folder}},
        )
        client.execute(
            env=environment, stderr=subprocess.DEVNULL
        )  # of the kernel itself, which speaks of ports
    return plainly(notebook)


def plainly(notebook: Any) -> Any:
    """Return a notebook without what is of one run or one machine only."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = list(_joined(cell.outputs))
    return notebook


def _joined(outputs: list[Any]) -> Iterator[Any]:
    """Yield outputs with neighbouring texts of one stream joined: how they are cut is chance."""
    last: Any = None
    for output in outputs:
        output.get("metadata", {}).clear()
        if (
            last is not None
            and output.output_type == last.output_type == "stream"
            and output.name == last.name
        ):
            last.text += output.text
            continue
        last = output
        yield output


def differences(stored: Any, fresh: Any) -> list[str]:
    """Return in which cells the stored outputs are not what the cells print now, but for numbers."""
    found = []
    for place, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        if old.cell_type != "code":
            continue
        before, now = [list(map(normalised, cell.outputs)) for cell in (old, new)]
        if before != now:
            found.append(f"cell {place} ({old.source.splitlines()[0]}): stored {before}, now {now}")
    return found


def normalised(output: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of an output and its words, without numbers and layout; of images the kind alone."""
    if output["output_type"] == "stream":
        return str(output["name"]), words(output["text"])
    if output["output_type"] == "error":
        return "error", str(output["ename"])
    data = output["data"]
    kinds = ", ".join(sorted(data))
    if any(kind.startswith("image/") for kind in data):
        return kinds, ""
    return kinds, words(data["text/html"] if "text/html" in data else data.get("text/plain", ""))


def words(text: str) -> str:
    """Return a text without numbers and layout."""
    return _PADDING.sub("", _SPACE.sub(" ", _NUMBER.sub("#", _HASH.sub("#", text)))).strip()


def faults(path: Path) -> list[str]:
    """Return what is wrong with a notebook as it is stored, without running it."""
    notebook, found = read(path), []
    if path.stat().st_size > BYTES_MAX:
        found.append(f"it has more than {BYTES_MAX} bytes")
    if notebook.cells[0].cell_type != "markdown" or not notebook.cells[0].source.startswith("# "):
        found.append("it does not begin with a title")
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    if counts != list(range(1, len(counts) + 1)):
        found.append("its cells were not run in order: make notebooks WRITE=1")
    for place, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", ()):
            shown = [
                output.get("text", ""),
                *output.get("traceback", ()),
                *map(str, output.get("data", {}).values()),
            ]
            if output["output_type"] == "error":
                found.append(f"cell {place} failed")
            if any(_OF_MACHINES.search(text) for text in shown):
                found.append(f"cell {place} shows a path of the machine that it ran on")
    return found


def main(argv: list[str] | None = None) -> int:
    """Execute the notebooks; tell what differs, or store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="such as 01; all by default")
    parser.add_argument("--write", action="store_true", help="store the fresh outputs")
    asked, failed = parser.parse_args(argv), False
    for path in notebooks():
        if asked.names and not path.name.startswith(tuple(asked.names)):
            continue
        began = time.monotonic()
        try:
            fresh = executed(path)
        except CellExecutionError as error:
            print(f"{path.name}: a cell failed\n{error}", file=sys.stderr)
            failed = True
            continue
        if asked.write:
            nbformat.write(fresh, path)
        seconds = time.monotonic() - began
        wrong = faults(path) + ([] if asked.write else differences(read(path), fresh))
        if seconds > SECONDS:
            wrong.append(f"it may run for {SECONDS} seconds")
        failed |= bool(wrong)
        print(f"{path.name}: {'; '.join(wrong) or 'ok'}, {seconds:.0f} seconds", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
