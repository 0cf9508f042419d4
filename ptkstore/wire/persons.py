"""Documents on the loss of one person in several streams."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ptkstore.wire.base import Loss, Name, Wire


class StreamLossOut(Wire):
    """The most that one person loses to a stream."""

    stream: Name
    privacy_unit: Annotated[str, Field(description="user or user-in-window")]
    windows: Annotated[int, Field(description="those that have closed")]
    spent: Annotated[Loss, Field(description="until now")]
    at_most: Annotated[Loss, Field(description="once all budget of the stream's blocks is spent")]
    rule: Annotated[str, Field(description="how this follows from the loss of a privacy unit")]
    minimum_assurance: str
    asserted_ptks: Annotated[
        list[str], Field(description="PTKs, registered or gone, whose loss is their teams' word")
    ]


class SummedLossOut(Wire):
    """The sums over streams."""

    spent: Loss
    at_most: Loss


class PersonLossOut(Wire):
    """The most that one person who is in all of these streams loses to them together."""

    streams: list[StreamLossOut]
    together: SummedLossOut
    rule: str
    holds: Annotated[str, Field(description="what the sum rests on")]
    until_now: Annotated[str, Field(description="how to read the two figures")]
    proof: str
