"""Commands that change a registered PTK: set-config, set-target, resume."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ptkstore.cli.output import Done, in_home
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.ptks.ptks import CONFIG_KEYS
from ptkstore.errors import InvalidRequest, UnknownName
from ptkstore.sdk.store import HomeStore


@in_home
def set_config(
    store: HomeStore,
    ptk_id: Annotated[str, typer.Argument(metavar="PTK", help="The PTK, as <team>.<name>.")],
    file: Annotated[
        Path,
        typer.Argument(
            help=f"JSON or TOML: parameters of the estimator, and {', '.join(sorted(CONFIG_KEYS))}."
        ),
    ],
) -> Done:
    """Change what a file names of the config of a PTK, from the next window on; the rest stays.

    JSON null takes one of the keys beside the parameters away. If there is no room, the change is refused with the
    reason and with what would fit; the PTK stays as it was.
    """
    split_ptk_id(ptk_id)
    config = read_config(file)
    store.update_ptk_config(ptk_id, config)
    return _changed(store, ptk_id, f"has a new {', '.join(sorted(config))}")


@in_home
def set_target(
    store: HomeStore,
    ptk_id: Annotated[str, typer.Argument(metavar="PTK", help="The PTK, as <team>.<name>.")],
    target: Annotated[
        float,
        typer.Argument(
            metavar="TARGET",
            help="The target, in the unit of its evaluation: a positive number. It is below 1 for a PTK with epsilons, "
            "and in the lower half of its loss_bounds for one that is profiled by samples.",
        ),
    ],
) -> Done:
    """Change the target of a PTK from the next window on; refused with the reason if there is no room."""
    split_ptk_id(ptk_id)
    store.update_ptk_performance_target(ptk_id, target)
    return _changed(store, ptk_id, f"has the target {target:g}")


@in_home
def resume(store: HomeStore, ptk_id: str) -> Done:
    """Train a PTK again that was given up because no state of it was accepted in time."""
    window = store.resume(ptk_id)
    return Done(
        {"ptk": ptk_id, "window": window}, f"{ptk_id} waits for an accepted version from window {window} on"
    )


def read_config(file: Path) -> dict[str, Any]:
    """Read a JSON or TOML file; messages name the file and the line, never its content."""
    if file.suffix.lower() not in (".json", ".toml"):
        raise InvalidRequest(f"{file.name}: the ending must be .json or .toml")
    if not file.is_file():
        raise UnknownName("file", str(file))
    try:
        text = file.read_text()
        config = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidRequest(f"{file.name} cannot be read as {file.suffix}{where}") from None
    if not isinstance(config, dict) or not config:
        raise InvalidRequest(f"{file.name} must name what is to change, as names and values")
    return config


def _changed(store: HomeStore, ptk_id: str, change: str) -> Done:
    spec = store.service.ptk(ptk_id)
    document = {
        "ptk": ptk_id,
        "target": spec.target,
        "tau": spec.target,  # its name of before
        "epsilon": spec.loss.epsilon,
        "delta": spec.loss.delta,
        "params": spec.estimator["params"],
        "config": spec.config,
    }
    text = f"{ptk_id} {change} from the next window on; what is reserved stays reserved"
    return Done(document, escape(text))
