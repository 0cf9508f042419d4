"""Common parts of the commands about devices: the folder of a device, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ptkstore.errors import InvalidRequest, OutcomeUnknown, Refused, Unavailable

Folder = Annotated[Path, typer.Argument(help="The folder of the device, which contains its odometer.")]


@contextmanager
def told() -> Iterator[None]:
    """Say of a device's errors who should act."""
    from ptklib.draw_discard import DeviceError, NoAnswer
    from ptklib.exceptions import InvalidParameterError, SchemaError

    try:
        yield
    except NoAnswer as error:
        raise (OutcomeUnknown if error.counted else Unavailable)(str(error)) from None
    except DeviceError as error:
        raise Refused(str(error)) from None
    except (InvalidParameterError, SchemaError) as error:
        raise InvalidRequest(str(error)) from None
