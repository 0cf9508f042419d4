"""Profiles by formula: families whose error follows from n and epsilon, at no loss but that of a row count."""

from ptklib.profiling.closed_form.errors import expected_error
from ptklib.profiling.closed_form.facts import Facts, facts_of
from ptklib.profiling.closed_form.profiles import RowCount, formula_profile
from ptklib.profiling.closed_form.released import cautious_facts, facts_from, facts_json

__all__ = [
    "Facts",
    "RowCount",
    "cautious_facts",
    "expected_error",
    "facts_from",
    "facts_json",
    "facts_of",
    "formula_profile",
]
