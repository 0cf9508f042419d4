"""The ledger: charging it, reading it, its reports, its recovery."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.ledger import budgets as budgets
    from ptkstore.application.ledger import export_ledger as export_ledger
    from ptkstore.application.ledger import loss_parts as loss_parts
    from ptkstore.application.ledger import odometers as odometers
    from ptkstore.application.ledger import person_losses as person_losses
    from ptkstore.application.ledger import recover_ledger as recover_ledger
    from ptkstore.application.ledger import verification as verification
else:
    __getattr__ = lazy.modules(__name__)
