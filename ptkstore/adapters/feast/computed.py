"""The view `<team>__<name>__computed`: what a PTK's state makes of numbers that a request sends along.

An on-demand view of Feast over the request alone: no row is read. The numbers of the served version stand as literals
in the text that consumers run, so one commit of the registry brings all of them, and no answer mixes two versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptkstore.adapters.feast import flips
from ptkstore.adapters.feast.computing import FUNCTION, text_of
from ptkstore.adapters.feast.names import PROJECT
from ptkstore.adapters.feast.session import Session
from ptkstore.domain.ptks.serving import COMPUTED, COMPUTED_VERSION
from ptkstore.ports.features import PublishedState

if TYPE_CHECKING:
    from feast.on_demand_feature_view import OnDemandFeatureView


def computed_name(base: str) -> str:
    """The view of the PTK whose only view would be named `base`."""
    return f"{base}__{COMPUTED}"


def is_computed(view: str) -> bool:
    """Whether a name is that of such a view."""
    return view.endswith(f"__{COMPUTED}")


def serve(session: Session, base: str, state: PublishedState) -> None:
    """Make the view compute with a version; needs the session's write lock; repeatable."""
    from feast.feature_view import DUMMY_ENTITY  # every on-demand view has it

    flips.declare(session, [DUMMY_ENTITY])
    session.registry.apply_feature_view(_on_demand(base, state), PROJECT)
    session.database.delete_snapshots(computed_name(base))


def withdraw(session: Session, base: str) -> None:
    """Take the view away; repeatable."""
    from feast.errors import FeatureViewNotFoundException

    try:
        session.registry.get_on_demand_feature_view(computed_name(base), PROJECT)
    except FeatureViewNotFoundException:
        return
    flips.forget_view(session, computed_name(base))
    session.database.delete_snapshots(computed_name(base))


def source_text(state: PublishedState) -> str:
    """The function that consumers run, with the version's numbers as literals in it."""
    return text_of(
        {
            "version": state.version,
            "since": state.as_of.timestamp(),
            "parts": [
                (part.form, [name for name, _ in part.columns], list(part.outputs), dict(part.parameters))
                for part in state.computed
            ],
        }
    )


def _on_demand(base: str, state: PublishedState) -> OnDemandFeatureView:
    from feast import Field, RequestSource
    from feast.on_demand_feature_view import OnDemandFeatureView
    from feast.types import Float64, Int64, String

    from ptkstore.adapters.feast.texts import TextTransformation

    kinds = {"double": Float64, "int64": Int64, "string": String}
    sent = dict(column for part in state.computed for column in part.columns)
    asked = [Field(name=name, dtype=kinds[kind]) for name, kind in sent.items()]
    fields = [
        Field(name=name, dtype=Float64 if part.form == "project" else Int64)
        for part in state.computed
        for name in part.outputs
    ]
    return OnDemandFeatureView(
        name=computed_name(base),
        sources=[RequestSource(name=f"{computed_name(base)}__request", schema=asked)],
        schema=[*fields, Field(name=COMPUTED_VERSION, dtype=Int64)],
        mode="pandas",
        feature_transformation=TextTransformation.of(source_text(state), FUNCTION),
        description=state.made.described(f"What {state.ptk_id} makes of numbers that a request sends along."),
        owner="ptkstore",
        tags=state.made.tags(),
    )
