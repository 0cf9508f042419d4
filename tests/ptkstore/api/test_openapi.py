"""The OpenAPI document is complete, and the server behaves as it says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ptkstore.api.rows.bodies import ARROW_STREAM, NDJSON, PARQUET
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.identity import STREAM_ROLES, Role
from ptkstore.domain.streams.blocks import BlockState
from ptkstore.domain.streams.policies import Closing, PrivacyUnit
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.wire import devices, identity, ptks, streams, subscriptions
from ptkstore.wire.base import Wire
from tests.support.api_server import Api

pytestmark = pytest.mark.long

CALLS = 200
SOAK_CALLS = 10_000


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with Api(tmp_path_factory.mktemp("home")) as api:
        del api.world.service.__dict__["features"]  # Feast itself answers lookups
        api.world.stream(retention_windows=20)
        api.world.register()
        api.world.publish(0)
        api.world.service.subscribe_to_ptk("taxi.speed", "http://127.0.0.1:9/", team="taxi")
        api.identity.create_team("taxi")
        yield api


@pytest.fixture(scope="module")
def document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.client().get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_is_described_and_says_how_it_is_refused(document: dict[str, Any]) -> None:
    problem = {"$ref": "#/components/schemas/Problem"}
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["operationId"], name
        for status, answer in operation["responses"].items():
            assert answer["description"], (name, status)
            if int(status) >= 400 and not name.endswith("/readyz"):
                assert answer["content"] == {"application/problem+json": {"schema": problem}}, (name, status)
        if " /v1/device/" in name:
            assert operation["security"] == [{"ticket": []}], name
            assert {"401", "409", "429", "500", "503"} <= set(operation["responses"]), name
        elif " /v1/" in name:
            assert operation["security"] == [{"token": []}], name
            assert {"401", "403", "422", "500", "503"} <= set(operation["responses"]), name


def test_operations_have_names_of_their_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)


def test_every_body_is_closed_and_has_an_example(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        schema = schemas[content["schema"]["$ref"].rpartition("/")[2]]
        assert schema["additionalProperties"] is False, name
        assert schema["examples"], name


@pytest.mark.parametrize("module", [devices, identity, ptks, streams, subscriptions])
def test_an_example_is_what_it_is_an_example_of(module: Any) -> None:
    found = [
        (kind, example)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Wire)
        for example in (kind.model_config.get("json_schema_extra") or {}).get("examples", [])  # type: ignore[union-attr]
    ]
    assert found
    for kind, example in found:
        kind.model_validate(example)


def test_every_text_and_list_that_is_sent_has_a_limit(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    sent = [
        schemas[operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        for _, operation in operations(document)
        if "application/json" in operation.get("requestBody", {}).get("content", {})
    ]

    def unlimited(schema: Any, place: str) -> Iterator[str]:
        if isinstance(schema, dict):
            if "$ref" in schema:
                yield from unlimited(schemas[schema["$ref"].rpartition("/")[2]], place)
            kind = schema.get("type")
            if kind == "string" and not {"maxLength", "pattern", "enum", "const"} & set(schema):
                yield place
            if kind == "array" and "maxItems" not in schema:
                yield place
            for name, item in schema.items():
                if name not in ("examples", "default"):
                    yield from unlimited(item, f"{place}.{name}")
        elif isinstance(schema, list):
            for item in schema:
                yield from unlimited(item, place)

    assert [place for schema in sent for place in unlimited(schema, schema["title"])] == []


@pytest.mark.parametrize(
    ("literal", "members"),
    [
        (streams.ColumnKind, ColumnType),
        (streams.StreamIn.model_fields["accountant"].annotation, Accountant),
        (streams.StreamIn.model_fields["privacy_unit"].annotation, PrivacyUnit),
        (streams.AssuranceName, Assurance),
        (streams.StreamIn.model_fields["closing"].annotation, Closing),
        (streams.BlockStateName, BlockState),
        (identity.RoleName, Role),
        (identity.StreamRoleName, STREAM_ROLES),
    ],
)
def test_the_words_of_the_wire_are_those_of_the_domain(literal: Any, members: Any) -> None:
    assert sorted(get_args(literal)) == sorted(member.value for member in members)


ENDLESS = re.compile(r"/events$")
schemathesis.serializer.alias(
    [ARROW_STREAM, PARQUET, NDJSON, "application/x-tar"], "application/octet-stream"
)


EXISTING = {"stream": "taxi", "ptk_id": "taxi.speed", "number": 1}


def name_what_exists(case: schemathesis.Case) -> None:
    """In half of the calls: a name that is drawn is nobody's, and the call ends there."""
    for name, drawn in (case.path_parameters or {}).items():
        if name in EXISTING and case.method != "DELETE" and len(str(drawn)) % 2:
            case.path_parameters[name] = EXISTING[name]
    body = case.body
    if case.path == "/v1/lookups" and isinstance(body, dict) and len(str(body)) % 2:
        body["features"] = ["taxi__speed:speed_mean"]  # what was drawn as a key goes to Feast as an hour
        if isinstance(body.get("entities"), list):
            body["entities"] = [
                {"hour": next(iter(one.values()))} if isinstance(one, dict) and one else one
                for one in body["entities"]
            ]


def hammer(api: Api, calls: int) -> None:
    """Call every operation, `calls` times in all or a few more, as somebody who may do everything."""
    headers = {"Authorization": f"Bearer {api.token(*Role)}"}
    schema = schemathesis.openapi.from_url(f"{api.url}/openapi.json", wait_for_schema=None)
    chosen = [found.ok() for found in schema.get_all_operations() if not ENDLESS.search(found.ok().path)]
    answered: Counter[str] = Counter()
    failures: list[str] = []
    session = requests.Session()  # one connection for all
    session.trust_env = False
    while answered.total() < calls and not failures:  # those that take no input have one example each
        each = max(1, (calls - answered.total()) // len(chosen))
        for operation in chosen:
            failures += call_often(operation, each, answered, session, headers)
    session.close()
    assert failures == []
    assert len(answered) == len(chosen)


def call_often(
    operation: Any, times: int, answered: Counter[str], session: requests.Session, headers: dict[str, str]
) -> list[str]:
    """Call one operation with what is drawn for it; what went wrong."""

    @settings(
        max_examples=times,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    @operation_given(operation)
    def call(case: schemathesis.Case) -> None:
        name_what_exists(case)
        answered[operation.label] += 1
        case.call_and_validate(
            headers=headers,
            session=session,
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
            timeout=60,
        )

    try:
        call()
    except Exception as error:  # noqa: BLE001 - every operation is to be looked at
        return [f"{operation.label}: {type(error).__name__}: {error}"[:2_000]]
    return []


def operation_given(operation: Any) -> Any:
    from hypothesis import given

    return given(case=operation.as_strategy())


def test_no_call_that_the_document_allows_or_forbids_is_a_server_error(api: Api) -> None:
    hammer(api, CALLS)


@pytest.mark.soak
def test_ten_thousand_calls_end_without_a_server_error(api: Api) -> None:
    hammer(api, SOAK_CALLS)
