"""Whatever reads rows, in processes of their own."""

from ptkstore.adapters.sandbox.confinement.bubblewrap import Bubblewrap
from ptkstore.adapters.sandbox.parent.eraser import ProcessEraser
from ptkstore.adapters.sandbox.parent.evaluator import ProcessEvaluator
from ptkstore.adapters.sandbox.parent.preparer import ProcessPreparer
from ptkstore.adapters.sandbox.parent.profiler import ProcessProfiler
from ptkstore.adapters.sandbox.parent.program import Program
from ptkstore.adapters.sandbox.parent.team_sandbox import BubblewrapSandbox
from ptkstore.adapters.sandbox.parent.trainer import ProcessTrainer
from ptkstore.adapters.sandbox.processes.process import Limits

__all__ = [
    "Bubblewrap",
    "BubblewrapSandbox",
    "Limits",
    "ProcessEraser",
    "ProcessEvaluator",
    "ProcessPreparer",
    "ProcessProfiler",
    "ProcessTrainer",
    "Program",
]
