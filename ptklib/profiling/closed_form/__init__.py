"""Profiles by formula: families whose error follows from n and epsilon, at no loss but that of a row count."""

from ptklib.profiling.closed_form.errors import expected_error
from ptklib.profiling.closed_form.facts import Facts, facts_of
from ptklib.profiling.closed_form.profiles import RowCount, formula_profile

__all__ = ["Facts", "RowCount", "expected_error", "facts_of", "formula_profile"]
