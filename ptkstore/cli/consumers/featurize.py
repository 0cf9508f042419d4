"""The command that applies a published PTK to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyarrow import parquet

from ptkstore.application.ingest.row_texts import Columns
from ptkstore.cli.output import Done, one_line, progress, reads
from ptkstore.cli.streams.rows import columns_of, read_table
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.errors import Deregistered, InvalidRequest
from ptkstore.sdk import Ptk, Store
from ptkstore.sdk import featurize as featurize_tables


@reads
def featurize(
    store: Store,
    ptk_id: str,
    file: Path,
    output: Annotated[Path, typer.Option("--output", "-o", help="The Parquet file to write.")],
) -> Done:
    """Append the features of a published PTK to a table."""
    ptk = store.ptk(ptk_id)
    with progress(f"reading {file.name}") as tell:
        rows = read_table(file, _texts(store, ptk))
        tell(f"appending the features of {ptk_id}")
        table = next(iter(featurize_tables([rows], [ptk])))
    try:
        parquet.write_table(table, output)
    except OSError as error:
        raise InvalidRequest(
            f"{output} cannot be written: {error.strerror or type(error).__name__}"
        ) from None
    text = one_line(f"{output}: {', '.join(table.column_names)}")
    return Done({"output": str(output), "columns": table.column_names}, text)


def _texts(store: Store, ptk: Ptk) -> Columns:
    """The columns a PTK reads that are strings in its stream: digits in a file would pass for numbers.

    None are known of a PTK that was deregistered.
    """
    try:
        spec = store.service.ptk(ptk.id)
    except Deregistered:
        return {}
    declared, read = columns_of(store, spec.stream), ptk.estimator.input_columns()
    return {name: kind for name, kind in declared.items() if name in read and kind is ColumnType.STRING}
