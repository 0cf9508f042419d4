"""The independent checker: reads the lake's files, the receiver's log and the ledger's tables.

It runs no code of the service. What it knows of their forms is written down here once more, so that a
mistake there cannot hide itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.ledger_tables import LedgerTables, ledger_faults, read_ledger

VERSION = re.compile(r"v(\d{8})")
UNFINISHED = "."  # a writer's own temporary file; no reader opens a name that begins so


@dataclass(frozen=True)
class Subscriber:
    """Who should have heard of every version of a PTK after `since`, at a path of the receiver."""

    path: str
    ptk_id: str
    since: int = 0


@dataclass(frozen=True)
class Evidence:
    """What is looked at. `database` is the catalog's SQLAlchemy URL."""

    lake: Path
    log: Path
    database: str
    subscribers: Sequence[Subscriber] = ()


@dataclass(frozen=True)
class Fault:
    """A promise that was broken: which, and where."""

    code: str
    where: str


@dataclass(frozen=True)
class Seen:
    """A version as the lake shows it."""

    ptk_id: str
    number: int
    manifest: dict[str, Any]
    sha256: str
    written_at: datetime

    @property
    def charge(self) -> dict[str, Any]:
        """The block this version trained on; the others were in the version before."""
        charge: dict[str, Any] = self.manifest["blocks"][-1]
        return charge

    @property
    def is_local(self) -> bool:
        """Whether devices trained it, so that no block was charged."""
        return bool(self.manifest["guarantee"].get("model") == "local")

    @property
    def made_of(self) -> tuple[str, str, int]:
        """What no second version of the PTK comes from: a block, or a window of devices."""
        if self.is_local:
            return self.ptk_id, self.manifest["stream"], self.manifest["newest_contributing_window"]["index"]
        return self.ptk_id, self.charge["stream"], self.charge["number"]

    @property
    def name(self) -> str:
        return f"{self.ptk_id} v{self.number}"


def check(evidence: Evidence, *, settled: bool) -> list[Fault]:
    """Every fault there is. While the chain runs (not `settled`) what is on its way is no fault yet."""
    faults: list[Fault] = []
    # The lake before the ledger: a spend comes before its version.
    versions = list(_lake(evidence.lake, settled, faults))
    ledger = read_ledger(evidence.database)
    faults += [Fault(code, where) for code, where in ledger_faults(ledger)]
    faults += _histories(versions)
    faults += _charges(versions, ledger)
    faults += _notifications(evidence, versions, settled)
    return faults


def spends_without_version(evidence: Evidence) -> list[tuple[str, int]]:
    """(PTK, block) of every spend whose output never came: a run that failed after its rows were opened."""
    spent = {(e.ptk_id, e.lo) for e in read_ledger(evidence.database).charges if e.kind == "spend"}
    shown = {(v.ptk_id, v.charge["number"]) for v in _lake(evidence.lake, True, [])}
    return sorted(spent - shown)


def _lake(lake: Path, settled: bool, faults: list[Fault]) -> Iterator[Seen]:
    for folder in sorted(lake.glob("ptks/*/*")):
        where = str(folder.relative_to(lake))
        match = VERSION.fullmatch(folder.name)
        if match is None:
            faults.append(Fault("unlisted-file", where))
            continue
        manifest = folder / "manifest.json"
        if not manifest.exists():
            if settled:
                faults.append(Fault("torn-version", f"{where}: no manifest"))
            continue
        text = manifest.read_bytes()
        torn = list(_torn(folder, text, folder.parent.name, int(match[1])))
        faults += [Fault("torn-version", f"{where}: {what}") for what in torn]
        if torn:
            continue
        content = json.loads(text)
        names = {file["name"] for file in content["files"]} | {"manifest.json"}
        faults += [
            Fault("unlisted-file", f"{where}/{path.name}")
            for path in folder.iterdir()
            if path.name not in names and not path.name.startswith(UNFINISHED)
        ]
        written = datetime.fromtimestamp(manifest.stat().st_mtime, UTC)
        yield Seen(folder.parent.name, int(match[1]), content, hashlib.sha256(text).hexdigest(), written)


def _torn(folder: Path, text: bytes, ptk_id: str, number: int) -> Iterator[str]:
    try:
        manifest = json.loads(text)
    except ValueError:
        yield "the manifest is no JSON"
        return
    if (manifest["ptk_id"], manifest["version"]) != (ptk_id, number):
        yield "the manifest is another version's"
    for file in manifest["files"]:
        path = folder / file["name"]
        if not path.exists():
            yield f"{file['name']} is missing"
            continue
        data = path.read_bytes()
        if len(data) != file["size"] or hashlib.sha256(data).hexdigest() != file["sha256"]:
            yield f"{file['name']} has another hash"
            continue
        try:
            pq.read_table(pa.BufferReader(data))
        except pa.ArrowInvalid:
            yield f"{file['name']} is no Parquet file"


def _histories(versions: Sequence[Seen]) -> Iterator[Fault]:
    by_ptk: dict[str, list[Seen]] = defaultdict(list)
    trained: dict[tuple[str, str, int], Seen] = {}
    for version in sorted(versions, key=lambda v: (v.ptk_id, v.number)):
        by_ptk[version.ptk_id].append(version)
        if version.made_of in trained:
            yield Fault("second-version", f"{version.name} and {trained[version.made_of].name}: one origin")
        trained[version.made_of] = version
    for ptk_id, known in by_ptk.items():
        if [version.number for version in known] != list(range(1, len(known) + 1)):
            yield Fault("version-gap", ptk_id)
        for before, after in pairwise(known):
            if after.is_local and after.made_of <= before.made_of:
                yield Fault("wrong-window", after.name)
            if after.manifest["blocks"][:-1] not in ([], before.manifest["blocks"]):
                yield Fault("wrong-blocks", after.name)


def _charges(versions: Sequence[Seen], ledger: LedgerTables) -> Iterator[Fault]:
    recorded = {
        (e.ptk_id, e.stream, number): e for e in ledger.charges if e.kind == "spend" for number in e.blocks
    }
    visible: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for version in versions:
        if version.is_local:
            charged = version.ptk_id in {e.ptk_id for e in ledger.charges}
            if charged or version.manifest["blocks"]:
                yield Fault("charged", f"{version.name}, which devices trained")
            continue
        charge = version.charge
        block = (charge["stream"], charge["number"])
        visible[block][0] += charge["epsilon_nano"]
        visible[block][1] += charge["delta_atto"]
        shown = (charge["epsilon_nano"], charge["delta_atto"])
        spend = recorded.get((version.ptk_id, *block))
        if spend is None or spend.epsilon_nano < shown[0] or spend.delta_atto < shown[1]:
            yield Fault("uncharged", f"{version.name} on block {block[1]} of {block[0]}")
        if version.manifest["guarantee"]["epsilon"] * 10**9 > charge["epsilon_nano"]:
            yield Fault("uncharged", f"{version.name} promises less than it was charged for")
    for block, (epsilon, delta) in visible.items():
        capacity = ledger.capacities.get(block)
        if capacity is None or epsilon > capacity[0] or delta > capacity[1]:
            yield Fault("overspent", f"block {block[1]} of {block[0]}, seen in the lake")


def _notifications(evidence: Evidence, versions: Sequence[Seen], settled: bool) -> Iterator[Fault]:
    shown = {(version.ptk_id, version.number): version for version in versions}
    calls = list(_calls(evidence.log))
    for call in calls:
        if not call["verified"]:
            yield Fault("bad-signature", call["path"])
    for subscriber in evidence.subscribers:
        heard: list[int] = []
        for call in calls:
            if call["path"] != subscriber.path or not call["verified"] or call["status"] != 204:
                continue
            data, number = call["message"]["data"], int(call["message"]["data"]["version"])
            version = shown.get((subscriber.ptk_id, number))
            if data["ptk_id"] != subscriber.ptk_id or (version and version.sha256 != data["sha256"]):
                yield Fault("false-notification", f"{subscriber.path} v{number}")
            elif version is None and settled:
                yield Fault("false-notification", f"{subscriber.path} v{number} is not in the lake")
            elif version and datetime.fromisoformat(call["received_at"]) < version.written_at:
                yield Fault("early-notification", f"{subscriber.path} v{number}")
            if number in heard:
                continue
            if number != max(heard, default=subscriber.since) + 1:
                yield Fault("out-of-order", f"{subscriber.path} v{number}")
            heard.append(number)
        due = {number for ptk_id, number in shown if ptk_id == subscriber.ptk_id}
        missed = {number for number in due - set(heard) if number > subscriber.since}
        if settled and missed:
            yield Fault("lost-notification", f"{subscriber.path} {sorted(missed)}")


def _calls(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text().splitlines() if log.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:  # torn by a kill before it was answered
            continue
