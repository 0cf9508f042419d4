"""Use cases, in folders by the people and things they are about. A use case is one module, named by a verb.

All of them raise `UnknownName` where what is named does not exist; they tell of it where there is more to say.

Use cases never call each other: what two of them share is a rule in `domain`, or a module here that a noun names. A
module is imported when it is first named as `application.training.train_ptk`: a command that reads loads nothing that
trains.
"""

from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application import delivery as delivery
    from ptkstore.application import devices as devices
    from ptkstore.application import identity as identity
    from ptkstore.application import ingest as ingest
    from ptkstore.application import ledger as ledger
    from ptkstore.application import operations as operations
    from ptkstore.application import paid_runs as paid_runs
    from ptkstore.application import planning as planning
    from ptkstore.application import profiling as profiling
    from ptkstore.application import ptks as ptks
    from ptkstore.application import scheduling as scheduling
    from ptkstore.application import states as states
    from ptkstore.application import streams as streams
    from ptkstore.application import training as training
    from ptkstore.application import versions as versions
    from ptkstore.application import windows as windows
else:
    __getattr__ = lazy.modules(__name__)


def load() -> None:
    """Import every use case: a service pays for that when it starts, not in a request or in each process it forks."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
