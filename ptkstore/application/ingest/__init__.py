"""Use cases of producers: rows come in, checked and sealed."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.ingest import ingest_records as ingest_records
else:
    __getattr__ = lazy.modules(__name__)
