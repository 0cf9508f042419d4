"""The side that asks for runs: it starts a process for each, and reads no row."""

from ptkstore.adapters.sandbox.confinement.bubblewrap import Bubblewrap
from ptkstore.adapters.sandbox.parent.program import Program
from ptkstore.adapters.sandbox.parent.runs import ChildRuns
from ptkstore.adapters.sandbox.parent.team_sandbox import BubblewrapSandbox
from ptkstore.adapters.sandbox.processes.process import Limits

__all__ = ["Bubblewrap", "BubblewrapSandbox", "ChildRuns", "Limits", "Program"]
