"""The catalog: PTKs of all visible streams."""

from __future__ import annotations

from typing import Any

from ptkstore.console.pages.reads import Reads
from ptkstore.domain.identity import Principal

PTKS_SHOWN = 500


class Catalog(Reads):
    """PTKs, to be searched."""

    def ptks(self, who: Principal) -> dict[str, Any]:
        """Show the PTKs of all visible streams."""
        specs = self._ptks(who)
        return {"ptks": self._lines(specs[:PTKS_SHOWN]), "n_ptks": len(specs)}
