"""Rows that the client lists, as lists that a notebook shows as a table; the budget also as a plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from ptklib.displays import BudgetDisplay

ROWS_SHOWN = 100

Row = Mapping[str, Any]


class Listing(list[dict[str, Any]]):
    """A list of rows that Jupyter shows as a table; it is a list in everything else."""

    title = "Rows"
    columns: Sequence[str] = ()
    """What is shown of each row, in this order; everything where it is empty."""

    def _repr_html_(self) -> str:
        from ptklib.displays import markup

        header = list(self.columns) or list(dict.fromkeys(name for row in self for name in row))
        rows = ([_cell(row, name) for name in header] for row in self[:ROWS_SHOWN])
        more = f", first {ROWS_SHOWN}" if len(self) > ROWS_SHOWN else ""
        caption = f"{len(self)} {'row' if len(self) == 1 else 'rows'}{more}"
        return markup.section(self.title, markup.table(caption, header, rows))


class PtkListing(Listing):
    """Registered PTKs."""

    title = "Registered PTKs"
    columns = (
        "ptk_id",
        "stream",
        "family",
        "newest_version",
        "newest_published_at",
        "loss.epsilon",
        "loss.delta",
        "assurance",
        "description",
    )


class VersionListing(Listing):
    """Published versions of a PTK."""

    title = "Published versions"
    columns = (
        "ptk_id",
        "version",
        "published_at",
        "newest_contributing_window.start",
        "guarantee.epsilon",
        "guarantee.delta",
        "guarantee.privacy_unit",
        "assurance",
        "manifest_sha256",
    )


class Budget(Listing):
    """The ledger of a stream, a row for each block, or for each line of a block."""

    title = "Budget"

    def plot(self, part: str | None = None, *, ax: Any = None) -> BudgetDisplay:
        """Draw what each window has spent and reserved below its capacity, in epsilon.

        Parameters
        ----------
        part : str, optional
            Such as `profile`, `test` or `train-0`; by default all parts that PTKs are trained on. Of several blocks of
            a window, the one that has least left is drawn.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Raises
        ------
        InvalidRequest
            The stream has no block of this part, or its blocks do not belong to windows.
        ModuleNotFoundError
            When matplotlib is not installed; the message says how to install it.
        """
        from ptklib.displays import BudgetDisplay

        chosen = [row for row in self if _is_of(row, part)]
        if not chosen:
            parts = ", ".join(sorted({str(row["part"]) for row in self})) or "none yet"
            raise InvalidRequest(f"no window has a block of part {part or 'train'}: its parts are {parts}")
        rows = list(_fullest(chosen))
        return BudgetDisplay(
            [str(row["window"]) for row in rows],
            [row["spent_epsilon"] for row in rows],
            [row["reserved_epsilon"] for row in rows],
            [row["capacity_epsilon"] for row in rows],
            f"budget of {part or 'the train parts'}, by window",
        ).plot(ax)


def _is_of(row: Row, part: str | None) -> bool:
    named = str(row["part"])
    return "window" in row and (named.startswith("train-") if part is None else named == part)


def _fullest(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield, window by window, the row with the least epsilon left."""
    by_window: dict[int, Row] = {}
    for row in rows:
        window = row["window"]
        if window not in by_window or _left(row) < _left(by_window[window]):
            by_window[window] = row
    yield from (by_window[window] for window in sorted(by_window))


def _left(row: Row) -> float:
    return float(row["capacity_epsilon"] - row["reserved_epsilon"] - row["spent_epsilon"])


def _cell(row: Row, path: str) -> Any:
    """Return a value of a row; a dot leads into a mapping."""
    value: Any = row
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
