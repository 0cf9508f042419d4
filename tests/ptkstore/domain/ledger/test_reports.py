"""Signed reports: every byte counts, and nothing that comes in is a surprise."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptklib.canonical_json import canonical_json
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.reports import FORMAT, loss_json, read_signed, signed
from ptkstore.errors import InvariantBroken

KEY = bytes(range(32))
LOSS = {"epsilon": "1", "delta": "0"}
REPORT: dict[str, Any] = {
    "stream": {"name": "taxi", "team": "taxi"},
    "made_at": "2026-01-05T00:00:00+00:00",
    "ledger_id": "ab",
    "period": {"windows": []},
    "losses": [],
    "guarantee": {"per_block": LOSS},
    "spent": {"stream": {"guarantee": LOSS}},
    "journal": {"entries": 1, "last": {"digest": "d"}},
    "verification": {"adds_up": True, "faults": []},
    "note": "größer < > & ☃",
}


def sign(message: bytes) -> bytes:
    return hashlib.sha512(KEY + message).digest()


def verifies(public_key: bytes, message: bytes, signature: bytes) -> bool:
    return hashlib.sha512(public_key + message).digest() == signature


FILE = signed(REPORT, KEY, sign)


def test_a_report_is_read_as_it_was_signed() -> None:
    found = read_signed(FILE, verifies)
    assert (found.fault, found.public_key) == ("", KEY.hex())
    assert found.report == {**REPORT, "format": FORMAT}
    assert (found.summary["stream"], found.summary["spent_epsilon"]) == ("taxi", "1")
    assert read_signed(FILE, verifies, KEY.hex()).fault == ""


@pytest.mark.parametrize("page", [b"<!doctype html>\n<html>", b"\n<!DOCTYPE HTML>", b"%PDF-1.4\n"])
def test_a_page_for_people_is_told_from_a_changed_file(page: bytes) -> None:
    assert read_signed(page, verifies).fault.startswith("this is a page for people")
    assert "were changed" in read_signed(b"<html>", verifies).fault


@pytest.mark.parametrize("name", list(REPORT))
@pytest.mark.parametrize("value", [None, 3, "x", [], [1], {}, {"stream": []}, {"windows": 1}])
def test_a_signed_file_of_another_form_is_refused_or_read_and_never_fails(name: str, value: Any) -> None:
    found = read_signed(signed({**REPORT, name: value}, KEY, sign), verifies)
    assert "no report" in found.fault or found.summary


def test_the_signature_is_over_the_canonical_report() -> None:
    document = json.loads(FILE)
    value = bytes.fromhex(document["signature"]["value"])
    assert value == sign(canonical_json(document["report"]).encode())


def test_any_byte_that_is_changed_is_found() -> None:
    for place in range(len(FILE)):
        for flip in (0x01, 0x20, 0x80):
            changed = bytearray(FILE)
            changed[place] ^= flip
            assert read_signed(bytes(changed), verifies).fault, (place, flip)
    for shorter in (FILE[:-1], FILE[1:], b"", FILE[: len(FILE) // 2]):
        assert read_signed(shorter, verifies).fault
    for longer in (FILE + b"\n", b" " + FILE, FILE + FILE):
        assert read_signed(longer, verifies).fault


def test_the_same_content_written_in_another_way_is_another_file() -> None:
    document = json.loads(FILE)
    for text in (
        json.dumps(document),
        json.dumps(document, indent=1, sort_keys=True),
        canonical_json(document),
        canonical_json({**document, "more": 1}) + "\n",
        FILE.decode().replace('"algorithm"', '"algorithm":"x","algorithm"'),
    ):
        assert read_signed(text.encode(), verifies).fault
    assert read_signed(FILE.decode().encode("utf-16"), verifies).fault


def test_another_signer_is_found_by_whoever_has_the_key() -> None:
    other = bytes(reversed(KEY))
    forged = signed(REPORT, other, lambda message: hashlib.sha512(other + message).digest())
    assert read_signed(forged, verifies).fault == ""
    assert "another key" in read_signed(forged, verifies, KEY.hex()).fault


@pytest.mark.parametrize("missing", [name for name in REPORT if name != "note"])
def test_a_signed_document_of_another_form_is_no_report(missing: str) -> None:
    report = {name: value for name, value in REPORT.items() if name != missing}
    assert "no report" in read_signed(signed(report, KEY, sign), verifies).fault


@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
            ),
        ).map(lambda value: json.dumps({"report": value, "signature": value}).encode()),
    )
)
def test_nothing_that_comes_in_is_a_surprise(content: bytes) -> None:
    assert read_signed(content, verifies).fault


def test_deep_nesting_and_long_numbers_are_no_surprise_either() -> None:
    for content in (b"[" * 100_000, b"1" * 100_000, b'{"report":' + b"9" * 5000 + b"}", b'"\\ud800"'):
        assert read_signed(content, verifies).fault


def test_binary_fractions_stay_out_of_reports() -> None:
    for value in (0.1, [1.0], {"a": [{"b": 0.5}]}, 2**53):
        with pytest.raises(InvariantBroken):
            signed({**REPORT, "value": value}, KEY, sign)


def test_amounts_are_exact_texts() -> None:
    assert loss_json(Loss(0, 0)) == {"epsilon": "0", "delta": "0"}
    assert loss_json(Loss(1, 1)) == {"epsilon": "0.000000001", "delta": "0.000000000000000001"}
    assert loss_json(Loss(10**10, 10**16)) == {"epsilon": "10", "delta": "0.01"}
    assert loss_json(Loss(123456789012345678901, 0))["epsilon"] == "123456789012.345678901"
