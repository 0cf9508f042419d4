"""The command that tries the sandbox of team code: `ptk sandbox`."""

from __future__ import annotations

from ptkstore.cli.output import AsJson, Done, Home, answers
from ptkstore.sdk.store import open_home


@answers
def sandbox(home: Home = None, as_json: AsJson = False) -> None:
    """Try whether team code can be run apart on this machine; exit code 1 and the reason if not.

    It starts the sandbox and tries the network, other processes, the store's files, more room and more rights from
    inside. Workers do the same before every training of team code. A store need not be there.
    """
    with open_home(home) as store:
        store.service.sandbox.check()
    Done({"sandbox": "works"}, "the sandbox works: team code can be run here").show(as_json=as_json)
