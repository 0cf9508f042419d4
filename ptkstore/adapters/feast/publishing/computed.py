"""The view `<team>__<name>__computed`: what a PTK's state makes of numbers that a request sends along.

An on-demand view of Feast over the request alone: no row is read. The numbers of the served version are literals in
the text that consumers run. So one commit of the registry brings all of them, and no answer mixes two versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptkstore.adapters.feast.names import computed_name
from ptkstore.adapters.feast.publishing import flips
from ptkstore.adapters.feast.publishing.computed_text import FUNCTION, text_of
from ptkstore.adapters.feast.session import Session
from ptkstore.domain.ptks.serving import COMPUTED_VERSION
from ptkstore.ports.features import PublishedState

if TYPE_CHECKING:
    from feast.on_demand_feature_view import OnDemandFeatureView


def serve(session: Session, base: str, state: PublishedState) -> None:
    """Make the view compute with a version; needs the session's write lock; repeatable."""
    flips.serve_on_demand(session, _on_demand(base, state))


def source_text(state: PublishedState) -> str:
    """Write the function that consumers run, with the version's numbers as literals in it."""
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
    from feast.types import Bool, Float64, Int64, String

    from ptkstore.adapters.feast.publishing.text_transformation import TextTransformation

    kinds = {"double": Float64, "int64": Int64, "string": String, "bool": Bool}
    sent = dict(column for part in state.computed for column in part.columns)
    inputs = [Field(name=name, dtype=kinds[kind]) for name, kind in sent.items()]
    fields = [
        Field(name=name, dtype=Float64 if part.form in ("project", "score") else Int64)
        for part in state.computed
        for name in part.outputs
    ]
    return OnDemandFeatureView(
        name=computed_name(base),
        sources=[RequestSource(name=f"{computed_name(base)}__request", schema=inputs)],
        schema=[*fields, Field(name=COMPUTED_VERSION, dtype=Int64)],
        mode="pandas",
        feature_transformation=TextTransformation.of(source_text(state), FUNCTION),
        description=state.made.described(f"What {state.ptk_id} makes of numbers that a request sends along."),
        owner="ptkstore",
        tags=state.made.tags(),
    )
