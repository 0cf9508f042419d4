"""Trainings, preparations and erasures in processes of their own."""

from ptkstore.adapters.sandbox.eraser import ProcessEraser
from ptkstore.adapters.sandbox.preparer import ProcessPreparer
from ptkstore.adapters.sandbox.program import Program
from ptkstore.adapters.sandbox.trainer import ProcessTrainer

__all__ = ["ProcessEraser", "ProcessPreparer", "ProcessTrainer", "Program"]
