"""Use cases: one module, one verb. They never call each other.

A module is imported when it is first named as `application.train_ptk`: a command that reads loads nothing that trains.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers, which cannot see `__getattr__`
    from ptkstore.application import claim_job as claim_job
    from ptkstore.application import close_windows as close_windows
    from ptkstore.application import collect_garbage as collect_garbage
    from ptkstore.application import create_stream as create_stream
    from ptkstore.application import deliver_due as deliver_due
    from ptkstore.application import diff_versions as diff_versions
    from ptkstore.application import evolve_stream as evolve_stream
    from ptkstore.application import exchange_ptks as exchange_ptks
    from ptkstore.application import export_ledger as export_ledger
    from ptkstore.application import forget_unit as forget_unit
    from ptkstore.application import heartbeat as heartbeat
    from ptkstore.application import ingest_records as ingest_records
    from ptkstore.application import materialize_ptk as materialize_ptk
    from ptkstore.application import odometers as odometers
    from ptkstore.application import prepare_again as prepare_again
    from ptkstore.application import read_deliveries as read_deliveries
    from ptkstore.application import read_exposure as read_exposure
    from ptkstore.application import read_ledger as read_ledger
    from ptkstore.application import read_notices as read_notices
    from ptkstore.application import read_numbers as read_numbers
    from ptkstore.application import read_profile as read_profile
    from ptkstore.application import read_trainings as read_trainings
    from ptkstore.application import read_work as read_work
    from ptkstore.application import record_action as record_action
    from ptkstore.application import recover_ledger as recover_ledger
    from ptkstore.application import redeliver as redeliver
    from ptkstore.application import register_ptk as register_ptk
    from ptkstore.application import rollback_ptk as rollback_ptk
    from ptkstore.application import signs_of_life as signs_of_life
    from ptkstore.application import subscribe as subscribe
    from ptkstore.application import team_code as team_code
    from ptkstore.application import ticks as ticks
    from ptkstore.application import trace_window as trace_window
    from ptkstore.application import upgrade_catalog as upgrade_catalog
    from ptkstore.application import versions as versions
else:

    def __getattr__(name: str) -> Any:
        """Import a use case."""
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":  # something that the use case needs
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def load() -> None:
    """Import every use case: a service pays for that when it starts, not in a request or in each process it forks."""
    for found in iter_modules(__path__):
        import_module(f"{__name__}.{found.name}")
