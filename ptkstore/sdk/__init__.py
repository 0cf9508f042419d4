"""The Python client, with the PTK paper's names."""

from typing import TYPE_CHECKING

from ptklib.lazy import exports

if TYPE_CHECKING:  # for editors and type checkers, which cannot see `__getattr__`
    from ptkstore.sdk.documents.ledgers import check_report as check_report
    from ptkstore.sdk.featurizing import Ptk as Ptk
    from ptkstore.sdk.featurizing import featurize as featurize
    from ptkstore.sdk.repository.declarations import PTK as PTK
    from ptkstore.sdk.repository.declarations import Repository as Repository
    from ptkstore.sdk.repository.declarations import load_repository as load_repository
    from ptkstore.sdk.repository.declarations import team_of as team_of
    from ptkstore.sdk.repository.team_code import TeamFunctions as TeamFunctions
    from ptkstore.sdk.store import Store as Store
    from ptkstore.sdk.store import connect as connect

_EXPORTS = {
    "PTK": "repository.declarations",
    "Ptk": "featurizing",
    "Repository": "repository.declarations",
    "Store": "store",
    "TeamFunctions": "repository.team_code",
    "check_report": "documents.ledgers",
    "connect": "store",
    "featurize": "featurizing",
    "load_repository": "repository.declarations",
    "team_of": "repository.declarations",
}

__all__ = list(_EXPORTS)

if not TYPE_CHECKING:  # which would take any name for one of these
    __getattr__, __dir__ = exports(__name__, _EXPORTS)
