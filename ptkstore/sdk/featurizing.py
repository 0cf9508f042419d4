"""Published PTKs in hand, and tables featurized with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ptkstore.domain.ptks.views import base_view
from ptkstore.domain.versions.versions import table_of
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from ptklib.base import DPEstimator
    from ptklib.displays.charts import BarDisplay
    from ptklib.state import ReleasedState


TABLES_SHOWN, LINE_MOST = 5, 100
"""Tables that are listed of a PTK, and letters of a line that says so."""


@dataclass(frozen=True)
class Ptk:
    """One published version: the paper's `struct ptk`.

    `model_state` is DP output or public and may be kept for ever; `guarantee` says what the last training lost.
    `evaluation` is the paid estimate of its loss, as `Store.evaluations` has it; None without one. `trusted` is set by
    `trusting`.
    """

    id: str
    version: int
    model_state: ReleasedState
    config: Mapping[str, Any]
    tau: float
    oldest_contributing_window: Mapping[str, Any]
    newest_contributing_window: Mapping[str, Any]
    guarantee: Mapping[str, Any]
    evaluation: Mapping[str, Any] | None = None
    trusted: type[DPEstimator] | None = None

    @property
    def target(self) -> float:
        """How small the error was to be, which manifests and papers call tau."""
        return self.tau

    @cached_property
    def estimator(self) -> DPEstimator:
        """The fitted estimator of this state, made once.

        Of team code it knows the tables alone, and refuses to transform: see `trusting`.
        """
        from ptklib.base import DPEstimator
        from ptklib.team import state_of_own

        if self.trusted is not None:
            return self.trusted.from_state(state_of_own(self.model_state, self.trusted))
        return DPEstimator.from_state(self.model_state)

    def plot(self, table: str | None = None, column: str | None = None, *, ax: Any = None) -> BarDisplay:
        """Draw a column of the state with intervals that contain 95 % of its noise; see `ReleasedState.plot`."""
        return self.model_state.plot(table, column, ax=ax)

    def __repr__(self) -> str:
        epsilon, delta, unit, assurance = map(
            self.guarantee.get, ("epsilon", "delta", "privacy_unit", "assurance")
        )
        tables, schemas = self.model_state.tables, self.model_state.schemas
        told = {
            "guarantee": f"epsilon {epsilon}, delta {delta}, privacy unit {unit}, assurance {assurance}",
            "windows": f"{self.oldest_contributing_window.get('start')} to "
            f"{self.newest_contributing_window.get('end')}",
            "target": f"{self.target}",
            **({} if self.evaluation is None else {"estimated loss": f"{self.evaluation.get('loss')}"}),
            "model": str(self.model_state.meta["family"]),
        }
        lines = [
            f"<PTK {self.id}, version {self.version}>",
            *(f"  {name}: {text}" for name, text in told.items()),
        ]
        for name, table in list(tables.items())[:TABLES_SHOWN]:
            keys = schemas[name].keys
            columns = ", ".join(column for column in table.column_names if column not in keys)
            by = f" by {', '.join(keys)}" if keys else ""
            lines.append(f"  table {name}: {table.num_rows} rows{by}: {columns}")
        if len(tables) > TABLES_SHOWN:
            lines.append(f"  and {len(tables) - TABLES_SHOWN} more tables")
        return "\n".join(map(_cut, lines))

    def _repr_html_(self) -> str:
        from ptklib.displays import markup

        told: dict[str, object] = {
            name: self.guarantee.get(name) for name in ("epsilon", "delta", "privacy_unit", "assurance")
        }
        for name in ("oldest_contributing_window", "newest_contributing_window"):
            told[name.replace("_", " ")] = getattr(self, name).get("start")
        told["target"] = self.target
        if self.evaluation is not None:
            told["estimated loss, paid for"] = self.evaluation.get("loss")
        title = f"PTK {self.id}, version {self.version}"
        return markup.section(title, markup.facts("Version", told)) + self.model_state._repr_html_()

    def trusting(self, family: type[DPEstimator]) -> Ptk:
        """Return the same version of a team's own class, with that class: the caller imported it and trusts it.

        Nothing of it comes from the store; a class of another name than the one that made the state is refused.
        """
        return replace(self, trusted=family)


def _cut(line: str) -> str:
    """A line as a terminal shows it: a long one is cut, and nothing in it moves the cursor."""
    line = "".join(one if one.isprintable() else "?" for one in line)
    return line if len(line) <= LINE_MOST else f"{line[: LINE_MOST - 1]}…"


def ptk_of(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> Ptk:
    """Return a version from its verified manifest and files."""
    from ptklib.state import ReleasedState

    tables = {table_of(name): data for name, data in files.items()}
    return Ptk(
        id=manifest["ptk_id"],
        version=manifest["version"],
        model_state=ReleasedState.from_parts(tables, manifest["state"], is_read=True),
        config=manifest["config"],
        tau=manifest["tau"],
        oldest_contributing_window=manifest["oldest_contributing_window"],
        newest_contributing_window=manifest["newest_contributing_window"],
        guarantee=manifest["guarantee"],
    )


def featurize(targetset_iter: Iterable[Any], ptks: Sequence[Ptk]) -> Iterator[pa.Table]:
    """Yield each table of `targetset_iter` with the features of every PTK appended.

    New columns are named `<team>__<name>__<feature>`; keys outside a PTK's domain get its declared defaults.

    Parameters
    ----------
    targetset_iter : iterable of tables with column names
        Of pyarrow, pandas, polars or what else `fit` reads, with the columns that the PTKs' estimators take keys from.
    ptks : sequence of Ptk
        As `Store.ptk` returns them.
    """
    import pyarrow as pa

    from ptklib.exceptions import InvalidParameterError, SchemaError
    from ptklib.tables import as_arrow

    for target in targetset_iter:
        try:
            table = as_arrow(target)
        except SchemaError as error:
            raise InvalidRequest(str(error)) from None
        featurized = table
        for ptk in ptks:
            try:
                values = ptk.estimator.transform(table)
            except (SchemaError, InvalidParameterError) as error:
                raise InvalidRequest(f"PTK {ptk.id}: {error}") from error
            for column, name in enumerate(ptk.estimator.get_feature_names_out()):
                featurized = featurized.append_column(
                    f"{base_view(ptk.id)}__{name}", pa.array(values[:, column])
                )
        yield featurized
