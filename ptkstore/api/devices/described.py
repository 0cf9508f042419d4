"""The routes of devices as the OpenAPI document has them: the framework does not know them."""

from __future__ import annotations

from typing import Any

from ptkstore.api.requests.routers import refusals

OCTETS = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_ANY = (400, 401, 409, 429, 500, 503)
_DOCUMENT = {"application/json": {"schema": {"type": "object"}}}


def describe(document: dict[str, Any]) -> None:
    """Add what devices ask for to an OpenAPI document."""
    schemes = document["components"].setdefault("securitySchemes", {})
    schemes["ticket"] = {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`Ticket <text>`: a ticket from the app's backend.",
    }
    digest = {
        "Ptk-Specification": {"schema": {"type": "string"}, "description": "the specification's digest"}
    }
    document["paths"] |= {
        "/v1/device/specification": {
            "get": _operation(
                "read_specification",
                "Read what the model is, and what the stream lets a device report",
                {
                    200: {
                        "description": "The specification and its digest, window and limits.",
                        "content": _DOCUMENT,
                    }
                },
            )
        },
        "/v1/device/draw": {
            "post": _operation(
                "draw_instance",
                "Draw an instance of the model, once with each ticket",
                {200: {"description": "int32, little-endian.", "content": OCTETS, "headers": digest}},
                413,
                415,
            )
        },
        "/v1/device/put": {
            "post": _operation(
                "put_report",
                "Put a noisy step back, once with each ticket that was drawn with",
                {204: {"description": "It was taken."}},
                408,
                415,
                422,
            )
            | {
                "requestBody": {
                    "description": "int32, little-endian, one for each weight.",
                    "required": True,
                    "content": OCTETS,
                }
            }
        },
    }


def _operation(
    name: str, summary: str, answers: dict[int | str, dict[str, Any]], *more: int
) -> dict[str, Any]:
    responses = {**answers, **refusals(*sorted({*_ANY, *more}))}
    return {
        "tags": ["devices"],
        "summary": summary,
        "description": f"{summary}.\n\nRoles: none, a device carries a ticket.",
        "operationId": name,
        "security": [{"ticket": []}],
        "responses": {str(status): answer for status, answer in responses.items()},
    }
