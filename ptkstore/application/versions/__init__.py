"""Versions: from a draft through the lake to Feast, and back in history."""

from typing import TYPE_CHECKING

from ptklib import lazy

if TYPE_CHECKING:
    from ptkstore.application.versions import elected_files as elected_files
    from ptkstore.application.versions import materialize_ptk as materialize_ptk
    from ptkstore.application.versions import refused_drafts as refused_drafts
    from ptkstore.application.versions import rollback_ptk as rollback_ptk
    from ptkstore.application.versions import trace_window as trace_window
else:
    __getattr__ = lazy.modules(__name__)
