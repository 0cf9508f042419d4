"""Whatever reads rows, in processes of their own."""

from ptkstore.adapters.sandbox.bubblewrap import Bubblewrap
from ptkstore.adapters.sandbox.eraser import ProcessEraser
from ptkstore.adapters.sandbox.evaluator import ProcessEvaluator
from ptkstore.adapters.sandbox.preparer import ProcessPreparer
from ptkstore.adapters.sandbox.process import Limits
from ptkstore.adapters.sandbox.profiler import ProcessProfiler
from ptkstore.adapters.sandbox.program import Program
from ptkstore.adapters.sandbox.team_sandbox import BubblewrapSandbox
from ptkstore.adapters.sandbox.trainer import ProcessTrainer

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
