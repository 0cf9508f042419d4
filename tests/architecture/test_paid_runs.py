"""Spending and opening rows have one home: a kind of paid run says nothing of keys, leases or retries."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import Module, modules

WALK = "ptkstore.application.paid_runs.paid_run"
PARTIALS = "ptkstore.application.training.collect_partial"  # opens rows under the spend of its training

KEYS = {"opening_key", "sealing_key"}
"""Methods that no other module even names."""
SEALING = {  # they write the rows of windows, or take some away
    "ptkstore.application.ingest.ingest_records",
    "ptkstore.application.windows.forget_unit",
    "ptkstore.application.windows.prepare_window",
}


def uses(module: Module, name: str) -> bool:
    """Whether a module takes a function from another, or names the method of an object."""
    return any(
        (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(f".{name}"))
        or (isinstance(node, ast.Attribute) and node.attr == name and name in KEYS)
        or (isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names))
        for node in ast.walk(module.tree)
    )


@pytest.mark.parametrize(
    ("name", "homes"),
    [
        ("opening_key", {WALK}),
        ("sealing_key", SEALING),
        ("mark_opened", {WALK, PARTIALS}),
        ("expect_spent", {WALK}),
        ("spend", {WALK}),
        ("hopeless", {WALK, PARTIALS}),
    ],
)
def test_one_module_takes_the_steps_of_a_paid_run(name: str, homes: set[str]) -> None:
    found = {
        module.name for module in modules() if module.room == "ptkstore.application" and uses(module, name)
    }
    assert found == homes
