"""Profiles by formula: families whose error follows from n and epsilon, at no loss."""

from ptklib.profiling.closed_form.errors import expected_error
from ptklib.profiling.closed_form.facts import Facts
from ptklib.profiling.closed_form.profiles import formula_profile
from ptklib.profiling.closed_form.released import cautious_facts, facts_from, facts_json, facts_of

__all__ = [
    "Facts",
    "cautious_facts",
    "expected_error",
    "facts_from",
    "facts_json",
    "facts_of",
    "formula_profile",
]
