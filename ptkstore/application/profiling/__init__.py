"""Profiles by samples and drift tests: paid runs on profile sets."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.profiling import read_profile as read_profile
else:
    __getattr__ = lazy.modules(__name__)
