from __future__ import annotations

from importlib.util import find_spec
from typing import Any, get_args

import pytest

from ptklib.families import FAMILIES
from ptkstore.adapters.sandbox.parent.preloading import modules_for
from ptkstore.ports.row_processes import Request


@pytest.mark.parametrize("kind", get_args(Request))
def test_every_module_that_a_run_is_said_to_import_exists(kind: Any) -> None:
    request = object.__new__(kind)
    for family in (*FAMILIES, "a team's own"):
        if "estimator" in kind.__dataclass_fields__:
            object.__setattr__(request, "estimator", {"family": family})
        modules = modules_for(request, "s3://rows", "/staging")
        assert [name for name in modules if find_spec(name) is None] == []
