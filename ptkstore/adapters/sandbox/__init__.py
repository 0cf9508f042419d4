"""Trainings and preparations in processes of their own."""

from ptkstore.adapters.sandbox.preparer import ProcessPreparer
from ptkstore.adapters.sandbox.program import Program
from ptkstore.adapters.sandbox.trainer import ProcessTrainer

__all__ = ["ProcessPreparer", "ProcessTrainer", "Program"]
