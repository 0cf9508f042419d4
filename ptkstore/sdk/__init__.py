"""The Python client, with the PTK paper's names."""

from ptkstore.sdk.declarations import PTK, Repository, load_repository, team_of
from ptkstore.sdk.featurizing import Ptk, featurize
from ptkstore.sdk.ledgers import check_report
from ptkstore.sdk.own_code import TeamFunctions
from ptkstore.sdk.store import Store, connect

__all__ = [
    "PTK",
    "Ptk",
    "Repository",
    "Store",
    "TeamFunctions",
    "check_report",
    "connect",
    "featurize",
    "load_repository",
    "team_of",
]
