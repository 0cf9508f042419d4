"""Signed reports as pages for people."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptkstore.domain.accounting.sharing import Sharing
from ptkstore.domain.ledger.reports import signed
from ptkstore.domain.streams.policies import Closing
from ptkstore.errors import InvalidRequest
from ptkstore.sdk.documents.ledgers import check_report
from ptkstore.sdk.reports.content import Page, Table, Text, page_of
from ptkstore.sdk.reports.pages import report_page
from ptkstore.sdk.reports.words import in_words, limits
from tests.support.world import STREAM, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A service with a stream, without a server before it."""
    made = World(tmp_path / "home")
    made.stream()
    yield made
    made.service.close()


OF_BEFORE = Path(__file__).with_name("report_with_offsets.json")
"""A report of the program that wrote times of sentences as 2026-01-05T00:00:00+00:00, and the key of its store."""
KEY_OF_BEFORE = "014d7ae95f28c97def70d9b615c9047a9ecd4ba81299e31c421df18f2fb6df68"


def test_sentences_of_a_report_say_utc_and_reports_of_before_are_still_valid(world: World) -> None:
    world.register()
    world.publish(0)
    means = json.loads(exported(world))["report"]["exposure"]["means"]
    assert "since 2026-01-05 00:00 UTC, in window 0" in means[0]
    assert "closes further than 2026-01-06 00:00 UTC" in means[1]
    assert not any("+00:00" in one for one in means)
    content = OF_BEFORE.read_bytes()
    found = check_report(content, KEY_OF_BEFORE)
    assert (found.fault, found.summary["adds_up"], found.summary["spent_epsilon"]) == ("", True, "0.1")
    old = json.loads(content)["report"]["exposure"]["means"]
    assert [re.sub(r"T(\d\d:\d\d):00\+00:00", r" \1 UTC", one) for one in old] == means
    assert set(old) <= set(texts(page_of(content)))
    assert check_report(content.replace(b"+00:00, in window", b" UTC, in window"), KEY_OF_BEFORE).fault


def exported(world: World) -> bytes:
    return world.service.export_ledger(STREAM).content


def texts(page: Page) -> list[str]:
    """All that the page says, in order."""
    found = [page.title, page.lead]
    for section in page.sections:
        found.append(section.heading)
        for part in section.parts:
            if isinstance(part, Table):
                found += [" | ".join(row) for row in (part.header, *part.rows)]
            else:
                found.append(part.text)
    return found


def changed(content: bytes, **parts: Any) -> bytes:
    """A report that says something else, without a signature that fits."""
    report = {**json.loads(content)["report"], **parts}
    return signed(report, b"k" * 32, lambda _: b"s" * 64)


def test_worst_block_and_loss_of_a_person_come_first(world: World) -> None:
    world.register("speed", 0.25)
    world.publish(0)
    world.publish(1)
    first = page_of(exported(world)).sections[0]
    assert first.heading == "Worst block and loss of a person"
    verdict, losses, _ = first.parts
    assert verdict == Text("Worst block: ε 0.25 lost, of ε 1 promised (block 2, window 0, train-0).")
    assert isinstance(losses, Table)
    assert [row[:3] for row in losses.rows] == [
        ("one record", "ε 0.25", "ε 1"),
        ("one user in one window", "ε 2.5", "ε 10"),  # of ten records
        ("one user in 2 windows", "ε 2.5", "ε 10"),
    ]


def test_a_report_on_one_window_says_nothing_twice(world: World) -> None:
    world.register("speed", 0.25)
    world.publish(0)
    content = exported(world)
    page = page_of(content)
    _, losses, _ = page.sections[0].parts
    assert isinstance(losses, Table)
    assert losses.header[1:3] == ("has lost at most", "loses at most, once all budget is spent")
    assert [row[0] for row in losses.rows] == ["one record", "one user in one window"]
    assert losses.rows[1][3].endswith("; example: a user with 10 records")
    assert ", 1 window from 2026-01-05" in page.lead
    promised = json.loads(content)["report"]["guarantee"]["promised"]
    assert [one["who"] for one in promised][2:] == ["one user in 1 window"]


def test_figures_have_the_words_of_the_command_line(world: World) -> None:
    world.register("speed", 0.25)
    world.publish(0)
    told = texts(page_of(exported(world)))
    assert "who | assurance | releases | spent | basic | tight" in told
    (meaning,) = [text for text in told if text.startswith("spent: ")]
    assert ["basic: " in meaning, "tight: " in meaning] == [True, True]
    assert "window | 1 day" in told


def test_the_page_carries_digest_and_signature_of_the_signed_file(world: World) -> None:
    world.register()
    world.publish(0)
    content = exported(world)
    page = report_page(content, "html").decode()
    assert hashlib.sha256(content).hexdigest() in page
    signature = json.loads(content)["signature"]
    assert signature["value"] in page
    assert signature["public_key"] in page


def test_the_page_loads_nothing_and_shows_hostile_names_as_text(world: World) -> None:
    content = changed(exported(world), stream={"name": "<script>alert(1)</script>", "team": "a&b"})
    page = report_page(content, "html").decode()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src 'none'" in page
    assert re.findall(r'(?:src|href)="', page) == []


def test_a_wrong_journal_is_the_first_thing_on_the_page_and_there_are_no_figures(world: World) -> None:
    content = changed(
        exported(world), verification={"adds_up": False, "faults": ["block 2 is over its capacity"]}
    )
    page = page_of(content)
    assert page.sections[0].heading.startswith("The journal is wrong")
    assert page.sections[0].parts == (Text("block 2 is over its capacity", alarm=True),)
    assert not any("Worst block" in text for text in texts(page))


def test_contexts_are_summed(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    sharing = Sharing((("eu", ("taxi",)), ("us", ("cabs",))), "the regions share no readers at all")
    world.stream(sharing=sharing)
    world.register("speed", 0.25)
    world.publish(0)
    page = texts(page_of(exported(world)))
    (told,) = [text for text in page if text.startswith("Contexts ")]
    assert told.startswith("Contexts eu, us: each context has the whole capacity.")
    assert "reacts to an output of another" in told
    assert "to ε 2 at most and ε 0.25 until now on the worst block" in told
    promised = page[page.index("each block may lose in each context | ε 1") :]
    assert promised[1:4] == [
        "each block may lose in all contexts together | ε 2",
        "context eu | ε 1",
        "context us | ε 1",
    ]
    world.service.close()


def test_the_page_says_what_is_exposed(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream(closing=Closing.OPERATOR, retention_windows=1)
    world.publish(0)
    told = texts(page_of(exported(world)))
    assert "windows are closed by | an operator" in told
    assert any("rows never expire by the wall clock" in text for text in told)
    verdict = told[told.index("What is exposed") + 1]
    assert verdict.startswith(
        "Rows of 1 window are kept past the calendar, because an operator closes this stream. The exposure check holds"
    )
    assert "By the wall clock, window 0 would have expired." in told
    world.service.close()


def test_a_report_of_before_exposures_has_a_page_too(world: World) -> None:
    report = json.loads(exported(world))["report"]
    del report["exposure"], report["policy"]["closing"], report["guarantee"]["contexts"]
    old = signed(report, b"k" * 32, lambda _: b"s" * 64)
    assert "This report does not say; look at: ptk stream show" in texts(page_of(old))


@pytest.mark.long
def test_a_pdf_has_every_page_and_is_the_same_twice(world: World) -> None:
    world.register()
    world.publish(0)
    content = exported(world)
    document = report_page(content, "pdf")
    assert document.startswith(b"%PDF-")
    assert document == report_page(content, "pdf")
    rows = [{**json.loads(content)["report"]["blocks"][0], "block": n} for n in range(200)]
    longer = report_page(changed(content, blocks=rows), "pdf")
    pages = (len(re.findall(rb"/Type /Page\b", one)) for one in (document, longer))
    assert next(pages) < next(pages)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"report": {}, "signature": {}}'])
def test_what_is_no_report_has_no_page(content: bytes) -> None:
    with pytest.raises(InvalidRequest, match="no report"):
        report_page(content, "html")


def test_losses_are_rounded_up(world: World) -> None:
    report = json.loads(exported(world))["report"]
    report["guarantee"]["per_block"] = {"epsilon": "0.123456789", "delta": "0.00000100000001"}
    told = texts(page_of(signed(report, b"k" * 32, lambda _: b"s" * 64)))
    assert "each block may lose | ε 0.123457, δ 1.00001e-6" in told


def test_the_loss_of_a_person_is_said_in_words_and_so_is_what_it_does_not_cover(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.stream(epsilon=1.0)
    world.register("speed", 0.25)
    world.publish(0)
    said = "\n".join(texts(page_of(exported(world))))
    assert "with and without the rows of one record" in said
    assert "at most 1.29 times as likely" in said  # e^0.25 = 1.284
    assert "it is at most 2.72 times" in said
    assert "A person with R rows loses R times epsilon" in said
    assert "several streams loses from each" in said
    assert "claims for its own code" not in said
    world.service.close()


def test_the_factor_of_a_loss_is_rounded_up_and_a_loss_that_promises_nothing_has_none() -> None:
    def said(epsilon: str, delta: str = "0") -> str:
        loss = {"who": "x", "epsilon": epsilon, "delta": delta}
        return in_words(loss, loss)

    assert "at most 1.00 times" in said("0")
    assert "at most 33.2 times" in said("3.5")  # 33.115
    assert "at most 1,100 times" in said("7")  # 1,096.6
    for nothing in (said("30"), said("1", "1")):
        assert "at most any number of times as likely" in nothing


def test_accepted_claims_of_teams_are_named_among_the_limits() -> None:
    (one,) = set(limits({"privacy_unit": "user", "minimum_assurance": "asserted"})) - set(
        limits({"privacy_unit": "user", "minimum_assurance": "library"})
    )
    assert "nobody has proven them" in one


def test_only_digests_may_be_broken_so_that_a_table_on_a_phone_stays_readable(world: World) -> None:
    world.register("speed", 0.25)
    world.publish(0)
    made = exported(world)
    page = report_page(made, "html").decode()
    assert f'<td class="long">{hashlib.sha256(made).hexdigest()}</td>' in page
    assert "<td>ptk taxi.speed</td>" in page
    assert page.count('<td class="long">') == 5  # first, last, file, signature, key
    assert re.search(r"Made \d{4}-\d\d-\d\d \d\d:\d\d UTC\.", page)
