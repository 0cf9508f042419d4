"""Trainings, their partials and estimates of their losses: paid runs on train and test sets."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.training import device_models as device_models
    from ptkstore.application.training import partials as partials
    from ptkstore.application.training import read_trainings as read_trainings
    from ptkstore.application.training import train_ptk as train_ptk
else:
    __getattr__ = lazy.modules(__name__)
