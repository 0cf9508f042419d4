"""Python that pages show can be compiled, and what it imports of ours exists.

Guides whose examples are run have tests of their own; this one covers every page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.architecture.source import REPOSITORY

OURS = ("ptklib", "ptkstore", "workers")
BLOCK = re.compile(r"^( *)```python[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for pattern in ("README.md", "docs/**/*.md", "examples/**/*.md", "ptklib/README.md")
    for path in REPOSITORY.glob(pattern)
    if "```python" in path.read_text(encoding="utf-8")
)


def blocks(page: str) -> list[str]:
    """The Python of a page."""
    return [re.sub(f"^{indent}", "", code, flags=re.MULTILINE) for indent, code in BLOCK.findall(page)]


def missing(code: str) -> Iterator[str]:
    """Names that a block imports of ours, and that are not there."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(str(node.module), alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            if module.partition(".")[0] in OURS and not _exists(module, name):
                yield f"{module}.{name}"


def _exists(module: str, name: str) -> bool:
    try:
        found = import_module(module)
        if not name or hasattr(found, name):
            return True
        import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES)
def test_python_of_a_page_compiles_and_imports_what_exists(page: str) -> None:
    found = blocks((REPOSITORY / page).read_text(encoding="utf-8"))
    assert found
    assert [name for code in found for name in missing(code)] == []


def test_what_is_wrong_in_a_block_is_seen() -> None:
    (code,) = blocks(
        "1. x\n   ```python\n   from ptklib import Nothing, PrivacyLoss\n   import ptkstore.gone\n   ```\n"
    )
    assert list(missing(code)) == ["ptklib.Nothing", "ptkstore.gone."]
    with pytest.raises(SyntaxError):
        list(missing("from ptklib import"))
