"""Problems as of RFC 9457."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, computed_field

from ptklib.exceptions import error_page
from ptkstore.wire.base import Wire

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:ptkstore:problem:"


class Fault(Wire):
    """One thing that is wrong with a request: where, as the path of a declared field, and a fixed code."""

    where: str
    reason: str
    pattern: Annotated[str | None, Field(description="which the text there has to match")] = None


class Problem(Wire):
    """Why a request was not done. `code` is fixed, the rest is for people; no value that was sent is repeated."""

    type: Annotated[str, Field(examples=["urn:ptkstore:problem:unknown-name"])]
    title: str
    status: int
    code: Annotated[str, Field(examples=["unknown-name"])]
    detail: str
    request_id: str
    kind: Annotated[str | None, Field(description="of what there is none of this name")] = None
    name: str | None = None
    faults: list[Fault] = Field(default_factory=list)

    @computed_field(description="the section about this code: an address, or a path in the repository")  # type: ignore[prop-decorator]
    @property
    def page(self) -> str:
        """The address of the section about this code."""
        return error_page(self.code)
