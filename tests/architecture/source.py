"""The product's source tree as the architecture tests see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOTS = ("ptklib", "ptkstore", "workers")
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """One Python file: its path below the tree's root, and its text."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The dotted name it is imported by."""
        return ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")

    @property
    def room(self) -> str:
        """The room it belongs to: a child of a root, or of ``ptkstore.adapters``."""
        parts = self.name.split(".")
        depth = 1 if parts[0] == "workers" else 3 if parts[:2] == ["ptkstore", "adapters"] else 2
        return ".".join(parts[:depth])

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed text."""
        return ast.parse(self.text, filename=str(self.path))


def modules(repository: Path = REPOSITORY) -> list[Module]:
    """Return every Python file of the product."""
    return [
        Module(path.relative_to(repository), path.read_text(encoding="utf-8"))
        for root in ROOTS
        for path in sorted((repository / root).rglob("*.py"))
    ]


def folders_without_init(repository: Path = REPOSITORY) -> Iterator[Path]:
    """Return folders that hold modules and are no packages."""
    for root in ROOTS:
        for folder in sorted({path.parent for path in (repository / root).rglob("*.py")}):
            if not (folder / "__init__.py").exists():
                yield folder.relative_to(repository)
