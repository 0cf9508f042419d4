"""States as bytes and as lake versions: only complete and untouched ones are read."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ptklib import DPEstimator, HistoricalStatistics, ReleasedState, load_state
from ptklib.exceptions import CorruptStateError
from tests.support.families import rows


@pytest.fixture(scope="module")
def state() -> ReleasedState:
    estimator = HistoricalStatistics(
        domains={"zone": ["a", "b"], "hour": range(2)}, bounds={"speed": (0, 60)}, epsilon=1.0
    )
    released: ReleasedState = estimator.fit(rows()).to_state()
    return released


def publish(state: ReleasedState, root: Path) -> Path:
    """Write a version directory the way the service does."""
    version = root / "ptks" / "taxi.speed" / "v00000001"
    version.mkdir(parents=True)
    files = []
    for name, data in state.to_files().items():
        if name == "state.json":
            continue
        sha256 = hashlib.sha256(data).hexdigest()
        stored = f"{name.removesuffix('.parquet')}-{sha256}.parquet"
        (version / stored).write_bytes(data)
        files.append({"name": stored, "size": len(data), "sha256": sha256})
    manifest = {
        "format_version": 1,
        "files": files,
        "state": json.loads(state.to_files()["state.json"]),
        "tau": 0.1,
    }
    (version / "manifest.json").write_text(json.dumps(manifest))
    return version


def changed(state: ReleasedState, **fields: Any) -> dict[str, Any]:
    return {**state.meta, **fields}


def test_a_published_version_is_read_back(state: ReleasedState, tmp_path: Path) -> None:
    version = publish(state, tmp_path)
    for place in (version, str(version), version.as_uri()):
        assert load_state(place).to_files() == state.to_files()
    assert DPEstimator.from_state(load_state(version)).transform(rows(3)).shape == (3, 3)


def test_a_saved_state_is_loaded_as_it_was(state: ReleasedState, tmp_path: Path) -> None:
    state.save(tmp_path / "new" / "folder")
    assert ReleasedState.load(str(tmp_path / "new" / "folder")).to_files() == state.to_files()
    (tmp_path / "new" / "folder" / "state.json").unlink()
    with pytest.raises(CorruptStateError):
        ReleasedState.load(tmp_path / "new" / "folder")


def test_files_are_deterministic_and_carry_no_pandas_metadata(state: ReleasedState) -> None:
    files = state.to_files()
    assert files == ReleasedState.from_files(files).to_files()
    assert set(files) == {"state.json", "statistics.parquet"}
    assert b"pandas" not in files["statistics.parquet"]
    assert (
        files["state.json"]
        == json.dumps(json.loads(files["state.json"]), sort_keys=True, separators=(",", ":")).encode()
    )


def test_a_version_without_manifest_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_state(tmp_path)


@pytest.mark.parametrize("damage", ["flip", "truncate", "append", "remove", "swap"])
def test_a_damaged_file_is_refused(state: ReleasedState, tmp_path: Path, damage: str) -> None:
    version = publish(state, tmp_path)
    (file,) = version.glob("*.parquet")
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    elif damage == "truncate":
        del data[-1]
    elif damage == "append":
        data += b"\0"
    if damage == "remove":
        file.unlink()
    elif damage == "swap":
        other = ReleasedState(
            {
                "statistics": state.tables["statistics"]
                .slice(0)
                .set_column(2, state.tables["statistics"].schema[2], pa.array([1.0] * 4))
            },
            state.meta,
        )
        file.write_bytes(other.to_files()["statistics.parquet"])
    else:
        file.write_bytes(bytes(data))
    with pytest.raises(CorruptStateError, match="statistics"):
        load_state(version)


def damaged_manifests() -> list[tuple[str, Any]]:
    def entry(manifest: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return {**manifest, "files": [{**manifest["files"][0], **fields}]}

    return [
        ("format", lambda m: {**m, "format_version": 2}),
        ("no files", lambda m: {**m, "files": []}),
        ("files of another type", lambda m: {**m, "files": {}}),
        ("no state", lambda m: {k: v for k, v in m.items() if k != "state"}),
        ("twice", lambda m: {**m, "files": m["files"] * 2}),
        ("size", lambda m: entry(m, size=m["files"][0]["size"] - 1)),
        ("size type", lambda m: entry(m, size=True)),
        ("hash", lambda m: entry(m, sha256="0" * 64)),
        ("traversal from a file", lambda m: entry(m, name=m["files"][0]["name"] + "/../../x")),
        ("traversal", lambda m: entry(m, name="../" + m["files"][0]["name"])),
        ("backslash", lambda m: entry(m, name="..\\" + m["files"][0]["name"])),
        ("absolute", lambda m: entry(m, name="/etc/passwd")),
        ("url", lambda m: entry(m, name="file:///etc/passwd")),
        ("newline", lambda m: entry(m, name=m["files"][0]["name"] + "\n")),
        ("other table", lambda m: entry(m, name="other" + m["files"][0]["name"][len("statistics") :])),
        ("list", lambda m: [m]),
    ]


@pytest.mark.parametrize("case", damaged_manifests(), ids=lambda case: case[0])
def test_a_damaged_manifest_is_refused(state: ReleasedState, tmp_path: Path, case: tuple[str, Any]) -> None:
    version = publish(state, tmp_path)
    path = version / "manifest.json"
    path.write_text(json.dumps(case[1](json.loads(path.read_text()))))
    named_wrongly = {"hash", "traversal from a file", "traversal", "backslash", "absolute", "url", "newline"}
    message = "names a file that is not" if case[0] in named_wrongly else None
    with pytest.raises(CorruptStateError, match=message):
        load_state(version)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nul",
        '{"format_version": NaN}',
        '{"format_version": 1, "format_version": 1}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_manifest_that_is_not_strict_json_is_refused(
    state: ReleasedState, tmp_path: Path, text: str
) -> None:
    version = publish(state, tmp_path)
    (version / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptStateError, match="strict JSON"):
        load_state(version)


@pytest.mark.parametrize(
    "fields",
    [
        {"format_version": 2},
        {"format_version": True},
        {"family": "Unknown"},
        {"family": "os"},
        {"n_releases": 0},
        {"n_releases": 1.0},
        {"loss": {"epsilon": 1.0}},
        {"loss": {"epsilon": -1.0, "delta": 0.0, "event": {}}},
        {"noise_std": {"statistics": {"count": float("nan")}}},
        {"noise_std": {"statistics": {"count": -1.0}}},
        {"noise_std": {"statistics": 1.0}},
        {"noise_variance": {"count": "1"}},
        {"defaults": {"statistics": {"count": None}}},
        {"noise_std": {"statistics": {"a\0b": 1.0}}},
        {"noise_std": {"a\0b": {}}},
        {"noise_std": {"other": {"count": 1.0}}},
        {"noise_variance": {"a\0b": 1.0}},
        {"noise_variance": {"\x1b]52;c;YQ==\x07": 1.0}},
        {"defaults": {"statistics": {"of_nobody": 1.0}}},
        {"defaults": {"a\0b": {}}},
        {"params": []},
        {"tables": {}},
        {"tables": {"../statistics": {"keys": [], "columns": []}}},
        {"tables": {"statistics": {"keys": ["zone"], "columns": [["hour", "int64"]]}}},
        {"tables": {"statistics": {"keys": [], "columns": [["hour", "object"]]}}},
        {"tables": {"statistics": {"keys": [], "columns": [["hour", "int64"], ["hour", "int64"]]}}},
        {"tables": {"statistics": {"keys": 3, "columns": 4}}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_malformed_description_is_refused(state: ReleasedState, fields: dict[str, Any]) -> None:
    with pytest.raises(CorruptStateError):
        ReleasedState(state.tables, changed(state, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"noise_std": {"statistics": {"a\0b": 1.0}}},
        {"noise_std": {"other": {"count": 1.0}}},
        {"noise_variance": {"\x1b]52;c;YQ==\x07": 1.0}},
        {"defaults": {"statistics": {"of_nobody": 1.0}}},
    ],
    ids=str,
)
def test_a_state_of_names_that_were_allowed_when_it_was_made_is_read(
    state: ReleasedState, fields: dict[str, Any], tmp_path: Path
) -> None:
    meta = changed(state, **fields)
    with pytest.raises(CorruptStateError):
        ReleasedState(state.tables, meta)
    old = ReleasedState(state.tables, meta, is_read=True)
    for read in (ReleasedState.from_files(old.to_files()), load_state(publish(old, tmp_path))):
        assert read.to_files() == old.to_files()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_numbers_that_are_not_finite_are_refused(state: ReleasedState, value: float | None) -> None:
    table = state.tables["statistics"]
    spoiled = table.set_column(2, "count", pa.array([1.0, 2.0, 3.0, value], type=pa.float64()))
    with pytest.raises(CorruptStateError):
        ReleasedState({"statistics": spoiled}, state.meta)


def test_missing_keys_are_refused(state: ReleasedState) -> None:
    table = state.tables["statistics"]
    spoiled = table.set_column(1, "hour", pa.array([0, 1, 0, None], type=pa.int64()))
    with pytest.raises(CorruptStateError, match="missing values"):
        ReleasedState({"statistics": spoiled}, state.meta)


def test_tables_of_other_columns_or_types_are_refused(state: ReleasedState) -> None:
    table = state.tables["statistics"]
    for other in (
        table.drop_columns(["count"]),
        table.select(list(reversed(table.column_names))),
        table.set_column(2, "count", table["count"].cast(pa.float32())),
        table.set_column(1, "hour", table["hour"].cast(pa.int32())),
        table.to_pandas(),
    ):
        with pytest.raises(CorruptStateError):
            ReleasedState({"statistics": other}, state.meta)


def test_missing_and_additional_files_are_refused(state: ReleasedState) -> None:
    files = state.to_files()
    for broken in (
        {n: d for n, d in files.items() if n != "state.json"},
        {n: d for n, d in files.items() if n == "state.json"},
        {**files, "extra.parquet": files["statistics.parquet"]},
        {**files, "readme.txt": b""},
        {**files, "statistics.parquet": b"PAR1"},
        {**files, "state.json": b"{}"},
    ):
        with pytest.raises(CorruptStateError):
            ReleasedState.from_files(broken)


def test_a_state_is_a_value_of_its_own(state: ReleasedState) -> None:
    meta = json.loads(json.dumps(dict(state.meta)))
    copy = ReleasedState(dict(state.tables), meta)
    meta["params"]["domains"]["hour"].append(9)
    assert copy.meta["params"]["domains"]["hour"] == [0, 1]
    with pytest.raises(TypeError):
        copy.meta["family"] = "Other"  # type: ignore[index]
    with pytest.raises(TypeError):
        copy.tables["other"] = copy.tables["statistics"]  # type: ignore[index]
    assert np.isfinite(copy.loss.epsilon)
