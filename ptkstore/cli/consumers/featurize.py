"""The command that applies a published PTK to a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pyarrow import parquet

from ptkstore.application.ingest.row_texts import Columns
from ptkstore.cli.output import AsJson, HomeOrUrl, answers, console, one_line, print_json, reading
from ptkstore.cli.streams.rows import columns_of, read_table
from ptkstore.domain.streams.streams import ColumnType
from ptkstore.errors import Deregistered, InvalidRequest
from ptkstore.sdk import Ptk, Store
from ptkstore.sdk import featurize as featurize_tables


@answers
def featurize(
    ptk_id: str,
    file: Path,
    output: Annotated[Path, typer.Option("--output", "-o", help="The Parquet file to write.")],
    home: HomeOrUrl = None,
    as_json: AsJson = False,
) -> None:
    """Append the features of a published PTK to a table."""
    with reading(home) as store:
        ptk = store.ptk(ptk_id)
        texts = _texts(store, ptk)
    table = next(iter(featurize_tables([read_table(file, texts)], [ptk])))
    try:
        parquet.write_table(table, output)
    except OSError as error:
        raise InvalidRequest(
            f"{output} cannot be written: {error.strerror or type(error).__name__}"
        ) from None
    if as_json:
        print_json({"output": str(output), "columns": table.column_names})
    else:
        console.print(one_line(f"{output}: {', '.join(table.column_names)}"))


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
