"""Use cases of windows: closed, prepared, allocated, forgotten, expired."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.windows import close_windows as close_windows
    from ptkstore.application.windows import forget_unit as forget_unit
    from ptkstore.application.windows import prepare_again as prepare_again
else:
    __getattr__ = lazy.modules(__name__)
