"""Tests import no test modules: what several of them need is in tests/support."""

from __future__ import annotations

import ast

from tests.architecture.source import REPOSITORY


def test_no_test_imports_a_test_module() -> None:
    imports = {
        (str(path.relative_to(REPOSITORY)), node.module)
        for path in (REPOSITORY / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2].startswith("test_")
    }
    assert imports == set()
