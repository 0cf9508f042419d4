"""Released state: the tables and the description of one release, and their bytes."""

import io
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ptklib.canonical_json import canonical_json
from ptklib.displays.charts import BarDisplay
from ptklib.displays.described import release_html
from ptklib.displays.released import ROWS_MAX, column_display
from ptklib.exceptions import CorruptStateError, PtklibError
from ptklib.families import FAMILIES, is_family
from ptklib.names import check_name
from ptklib.privacy import PrivacyLoss

FORMAT_VERSION = 1
STATE_FILE = "state.json"
TABLE_SUFFIX = ".parquet"
_TYPES = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "bool": pa.bool_()}
_NUMBER_MAX = sys.float_info.max
_COMPONENT = re.compile(r"\w{1,200}", re.ASCII)
_FIELDS = frozenset(
    {
        "format_version",
        "family",
        "params",
        "tables",
        "loss",
        "n_releases",
        "noise_std",
        "noise_variance",
        "defaults",
    }
)
_OF_LOCAL = frozenset({"guarantee"})
"""What only states have whose noise was added by devices."""


@dataclass(frozen=True)
class TableSchema:
    """The columns of one released table; `keys` are its join keys. Known without the data."""

    keys: tuple[str, ...]
    schema: Any

    @classmethod
    def of(cls, keys: Mapping[str, Any], numbers: Iterable[str]) -> Self:
        """Return a table of join keys, each of an Arrow type, followed by columns of numbers."""
        fields = [(name, arrow_type) for name, arrow_type in keys.items()]
        fields += [(name, pa.float64()) for name in numbers]
        return cls(tuple(keys), pa.schema([pa.field(*field, nullable=False) for field in fields]))

    def to_json(self) -> dict[str, Any]:
        """Return keys and columns, in order, as plain JSON values."""
        columns = [[field.name, _type_name(field.type)] for field in self.schema]
        return {"keys": list(self.keys), "columns": columns}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read what `to_json` wrote."""
        if not isinstance(document, Mapping) or set(document) != {"keys", "columns"}:
            raise CorruptStateError("a table description has exactly the fields keys and columns")
        keys, columns = document["keys"], document["columns"]
        try:
            schema = pa.schema([pa.field(str(name), _TYPES[kind], nullable=False) for name, kind in columns])
            sound = set(keys) <= set(schema.names) and len(set(schema.names)) == len(schema.names)
        except (TypeError, ValueError, KeyError):
            raise CorruptStateError("a table description has malformed columns") from None
        if not sound or not all(isinstance(key, str) for key in keys):
            raise CorruptStateError(
                "a table description names keys that are not columns, or repeats a column"
            )
        return cls(tuple(keys), schema)


@dataclass(frozen=True, eq=False)
class ReleasedState:
    """The outputs of a release: Arrow tables and JSON. DP output, immutable, may enter the lake.

    Parameters
    ----------
    tables : mapping of name to pyarrow.Table
    meta : mapping
        ``format_version``, ``family`` and ``params`` (the spec), ``tables`` (schemas), ``loss`` of the last
        release, ``n_releases`` that are added up, ``noise_std`` per table and column of the accumulated
        values, ``noise_variance`` per component, and ``defaults`` for keys outside the tables. If devices
        added the noise also ``guarantee``, which is the promise to each of them.
    is_read : bool
        Whether it was made before, so that later rules of what a new one may name do not hold for it.

    Raises
    ------
    CorruptStateError
        When tables and description do not agree, or a number is not finite.
    """

    tables: Mapping[str, Any]
    meta: Mapping[str, Any]
    is_read: InitVar[bool] = False

    def __post_init__(self, is_read: bool) -> None:
        meta = _checked_meta(self.meta)
        described = {name: TableSchema.from_json(entry) for name, entry in meta["tables"].items()}
        if not is_read:
            _check_declared(meta, described)
        if set(self.tables) != set(described):
            raise CorruptStateError("the tables are not the ones the state describes")
        tables = {
            name: _checked_table(name, self.tables[name], described[name]) for name in sorted(described)
        }
        object.__setattr__(self, "meta", MappingProxyType(meta))
        object.__setattr__(self, "tables", MappingProxyType(tables))

    def __repr__(self) -> str:
        return f"ReleasedState(family={self.meta['family']!r}, tables={list(self.tables)})"

    def _repr_html_(self) -> str:
        told = {"releases added up": self.meta["n_releases"]}
        title = f"Released state of {self.meta['family']}"
        return release_html(title, self.tables, self._keys(), self.meta["noise_std"], self.loss, told)

    def plot(
        self, table: str | None = None, column: str | None = None, *, rows: int = ROWS_MAX, ax: Any = None
    ) -> BarDisplay:
        """Draw a column with intervals that contain 95 % of its noise, as the `plot` of estimators does."""
        noise = self.meta["noise_std"]
        return column_display(self.tables, self._keys(), noise, self.loss, (table, column), rows).plot(ax)

    def _keys(self) -> dict[str, tuple[str, ...]]:
        return {name: schema.keys for name, schema in self.schemas.items()}

    @property
    def loss(self) -> PrivacyLoss:
        """The loss of the last release."""
        return PrivacyLoss.from_json(self.meta["loss"])

    @property
    def schemas(self) -> dict[str, TableSchema]:
        """Keys and columns of each table."""
        return {name: TableSchema.from_json(entry) for name, entry in self.meta["tables"].items()}

    def spec(self) -> dict[str, Any]:
        """Return the spec of the estimator that made this state."""
        return {"family": self.meta["family"], "params": json.loads(canonical_json(self.meta["params"]))}

    def to_files(self) -> dict[str, bytes]:
        """Return ``<table>.parquet`` per table and ``state.json``; equal states give equal bytes."""
        files = {name + TABLE_SUFFIX: _parquet_bytes(table) for name, table in self.tables.items()}
        files[STATE_FILE] = canonical_json(dict(self.meta)).encode()
        return files

    def save(self, folder: str | Path) -> None:
        """Write the files of `to_files` into a folder, which is made if it is not there."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in self.to_files().items():
            (place / name).write_bytes(content)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read what `save` wrote; `from_state` of an estimator's class makes the fitted estimator of it.

        Raises
        ------
        FileNotFoundError
            When there is no such folder.
        CorruptStateError
            When its files are not those of one state.
        """
        return cls.from_files({file.name: file.read_bytes() for file in Path(folder).iterdir()})

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> Self:
        """Read what `to_files` wrote, by this version of the library or an earlier one.

        Raises
        ------
        CorruptStateError
            For unknown format versions and families, missing or additional files, wrong column types, numbers
            that are not finite.
        """
        if STATE_FILE not in files:
            raise CorruptStateError(f"{STATE_FILE} is missing")
        tables = {name: data for name, data in files.items() if name != STATE_FILE}
        if not all(name.endswith(TABLE_SUFFIX) for name in tables):
            raise CorruptStateError(f"a state has only *{TABLE_SUFFIX} files and {STATE_FILE}")
        return cls.from_parts(
            {name.removesuffix(TABLE_SUFFIX): data for name, data in tables.items()},
            read_json(files[STATE_FILE]),
            is_read=True,
        )

    @classmethod
    def from_parts(cls, tables: Mapping[str, bytes], meta: Any, *, is_read: bool = False) -> Self:
        """Read Parquet bytes per table beside an already parsed description."""
        if set(tables) != set(_checked_meta(meta)["tables"]):
            raise CorruptStateError("the tables are not the ones the state describes")
        read = {name: _read_parquet(name, data) for name, data in tables.items()}
        return cls(read, meta, is_read=is_read)


def read_json(data: bytes) -> Any:
    """Parse strict JSON: UTF-8, no NaN, no repeated field."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise CorruptStateError("the description is not strict JSON") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("repeated field")
    return document


def _checked_meta(meta: Any) -> dict[str, Any]:
    if not isinstance(meta, Mapping):
        raise CorruptStateError("the description of a state must be a JSON object")
    if meta.get("format_version") != FORMAT_VERSION or isinstance(meta.get("format_version"), bool):
        raise CorruptStateError(f"unknown format_version: this library reads {FORMAT_VERSION}")
    if set(meta) - _OF_LOCAL != _FIELDS:
        raise CorruptStateError(
            f"the description of a state has exactly the fields {', '.join(sorted(_FIELDS))}"
        )
    if not is_family(meta["family"]):
        raise CorruptStateError(f"unknown family: known are {', '.join(sorted(FAMILIES))}")
    if any(
        not isinstance(meta[name], Mapping) for name in ("params", "tables", "loss", "noise_std", "defaults")
    ):
        raise CorruptStateError("params, tables, loss, noise_std and defaults must be JSON objects")
    releases = meta["n_releases"]
    if isinstance(releases, bool) or not isinstance(releases, int) or releases < 1:
        raise CorruptStateError("n_releases must be a positive integer")
    try:
        for name in meta["tables"]:
            check_name(name, "a table")
        PrivacyLoss.from_json(meta["loss"])
        document: dict[str, Any] = json.loads(canonical_json(_thaw(meta)))
    except (PtklibError, TypeError, ValueError, RecursionError):
        raise CorruptStateError("the description of a state has malformed values") from None
    return _checked_numbers(document)


def _checked_numbers(meta: dict[str, Any]) -> dict[str, Any]:
    groups = [meta["noise_variance"], *meta["noise_std"].values()]
    if not all(isinstance(group, dict) for group in [*groups, *meta["defaults"].values()]):
        raise CorruptStateError("noise_std, noise_variance and defaults map names to numbers")
    numbers = [(value, 0.0) for group in groups for value in group.values()]
    numbers += [(value, -math.inf) for group in meta["defaults"].values() for value in group.values()]
    for value, least in numbers:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
            raise CorruptStateError("noise_std, noise_variance and defaults map names to finite numbers")
    return meta


def _check_declared(meta: Mapping[str, Any], described: Mapping[str, TableSchema]) -> None:
    columns = {name: set(form.schema.names) for name, form in described.items()}
    for group in ("noise_std", "defaults"):
        for table, values in meta[group].items():
            if not set(values) <= columns.get(table, set()) or table not in columns:
                raise CorruptStateError(f"{group} names a table or column that the state does not have")
        if not all(abs(value) <= _NUMBER_MAX for values in meta[group].values() for value in values.values()):
            raise CorruptStateError(f"{group} has a number that no float64 can represent")
    if not all(abs(value) <= _NUMBER_MAX for value in meta["noise_variance"].values()):
        raise CorruptStateError("noise_variance has a number that no float64 can represent")
    if not all(_COMPONENT.fullmatch(name) for name in meta["noise_variance"]):
        raise CorruptStateError("noise_variance names components by letters, digits and underscores")


def _thaw(value: Any) -> Any:
    return {key: _thaw(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _checked_table(name: str, table: Any, described: TableSchema) -> Any:
    if not isinstance(table, pa.Table):
        raise CorruptStateError(f"table {name!r} is not an Arrow table")
    columns = [(field.name, field.type) for field in table.schema]
    if columns != [(field.name, field.type) for field in described.schema]:
        raise CorruptStateError(f"table {name!r} does not have the declared columns")
    if any(column.null_count for column in table.columns):
        raise CorruptStateError(f"table {name!r} has missing values")
    for field in described.schema:
        if pa.types.is_floating(field.type) and not np.all(np.isfinite(table.column(field.name).to_numpy())):
            raise CorruptStateError(f"table {name!r} has numbers that are not finite")
    return table.replace_schema_metadata(None).cast(described.schema).combine_chunks()


def _type_name(arrow_type: Any) -> str:
    for name, candidate in _TYPES.items():
        if arrow_type == candidate:
            return name
    raise CorruptStateError(f"a released column cannot have type {arrow_type}")


def _parquet_bytes(table: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        table, sink, compression="zstd", compression_level=3, version="2.6", row_group_size=1 << 20
    )
    return sink.getvalue()


def _read_parquet(name: str, data: bytes) -> Any:
    try:
        return pq.ParquetFile(io.BytesIO(data)).read()
    except (pa.ArrowException, OSError, ValueError):
        raise CorruptStateError(f"table {name!r} is not readable Parquet") from None
