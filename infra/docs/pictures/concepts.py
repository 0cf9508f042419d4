"""The pictures of the concept pages."""

import math
from collections.abc import Callable

from infra.docs.pictures.drawing import Drawing


def ptk() -> Drawing:
    """From rows to versions to readers."""
    d = Drawing(
        "A PTK",
        "Each window's rows are trained on with noise. The versions go to the lake, Feast and subscribers.",
        230,
    )
    for place, day in enumerate(("Monday", "Tuesday", "Wednesday")):
        y = 50 + 56 * place
        d.box(12, y, 144, 40, "private", f"{day}'s rows")
        d.arrow(156, y + 20, 196, y + 20)
        d.box(200, y, 140, 40, "plain", "training + noise")
        d.arrow(340, y + 20, 386, y + 20)
        d.box(390, y, 90, 40, "public", f"version {place + 1}")
    for place, reader in enumerate(("lake", "Feast", "subscribers")):
        y = 50 + 56 * place
        d.arrow(480, 126, 526, y + 20)
        d.box(530, y, 96, 40, "own", reader)
    d.text(85, 30, "private", "middle", "soft")
    d.text(270, 30, "spends epsilon", "middle", "soft")
    d.text(435, 30, "published", "middle", "soft")
    d.text(578, 30, "readers", "middle", "soft")
    return d


def window() -> Drawing:
    """Open, closed and expired windows on one time line."""
    d = Drawing(
        "The life of a window",
        "Window 0 is open for a day, takes late rows for two hours, is closed until its retention ends, then expired.",
        220,
    )
    d.text(20, 30, "window 0 of a stream with window 1d, lateness 2h, retention 2", kind="soft")
    d.box(20, 60, 150, 50, "own", "open")
    d.box(170, 60, 50, 50, "plain", "late")
    d.box(220, 60, 250, 50, "private", "closed: trained on")
    d.box(470, 60, 150, 50, "none", "expired")
    for x, when in ((20, "Mon 00:00"), (170, "Tue 00:00"), (470, "Thu 00:00")):
        d.line(x, 112, x, 130)
        d.text(x, 146, when, "middle" if x > 20 else "start")
    d.line(220, 112, 220, 160)
    d.text(220, 176, "Tue 02:00: it closes", "start")
    d.text(632, 176, "rows and key destroyed", "end", "soft small")
    d.text(20, 204, "Its rows are kept, encrypted, from their arrival until Thursday.", kind="soft")
    return d


def block() -> Drawing:
    """One window in four blocks."""
    d = Drawing(
        "Blocks of a window",
        "A window has a profile set, a test set and two train partitions. Each is a block with a budget of 1.",
        240,
    )
    d.text(20, 30, "the rows of one window: a keyed hash puts each row into one block", kind="soft")
    x = 20.0
    for name, share, spent in (
        ("profile", 0.13, 0.0),
        ("test", 0.13, 0.0),
        ("train-0", 0.37, 0.25),
        ("train-1", 0.37, 0.0),
    ):
        width = 600 * share
        d.box(x, 48, width - 6, 60, "private", name)
        d.box(x, 150, width - 6, 22, "none")
        if spent:
            d.box(x, 150, (width - 6) * spent, 22, "own")
        d.text(x, 192, f"{spent:g} of 1", kind="ink small")
        x += width
    d.text(20, 138, "budget of each block: what is spent, of epsilon 1", kind="soft")
    d.text(20, 224, "The stream's loss is the largest of these, 0.25, and not the sum.", kind="soft")
    return d


def budget() -> Drawing:
    """Two PTKs fit into a block, a third one does not."""
    d = Drawing(
        "The budget of a block",
        "Two PTKs reserve epsilon 0.4 each of a capacity of 1. A third one asks for 0.4 where 0.2 is left: refused.",
        290,
    )
    ground, height = 240, 200
    for x, when, parts in (
        (70, "Monday's block", (("speed 0.4", "own"), ("tips 0.4", "public"))),
        (230, "Tuesday's block", (("speed 0.4", "own"), ("tips 0.4", "public"))),
    ):
        y = float(ground)
        for text, kind in parts:
            y -= 0.4 * height
            d.box(x, y, 120, 0.4 * height, kind, text)
        d.text(x + 60, ground + 24, when, "middle")
    d.line(50, ground, 390, ground)
    d.line(50, ground - height, 390, ground - height, "dashed")
    d.text(50, ground - height - 10, "capacity: epsilon 1", kind="soft")
    d.box(430, 80, 180, 80, "none dashed", "delays 0.4")
    d.text(520, 184, "refused: 0.2 is left", "middle")
    d.text(
        20,
        282,
        "A new window brings new blocks, with new budgets. Spent budget never comes back.",
        kind="soft",
    )
    return d


def allocation() -> Drawing:
    """One partition against two."""
    d = Drawing(
        "Two plans",
        "In one partition the three PTKs open 13,600 rows. In two partitions they open 8,400 and 2,184 rows.",
        270,
    )
    scale = 580 / 13_600
    d.text(20, 28, "one partition: 13,600 rows are opened", kind="soft")
    for y, name, rows, epsilon in (
        (40, "speed", 7_900, 0.1),
        (66, "zones", 13_600, 0.5),
        (92, "fares", 3_000, 0.1),
    ):
        d.box(30, y, rows * scale, 24, "own", f"{name} {epsilon:g}")
    d.text(20, 148, "two partitions: 8,400 + 2,184 = 10,584 rows are opened", kind="soft")
    d.box(30, 160, 8_400 * scale, 24, "public", "zones 1")
    d.line(30 + 8_400 * scale + 8, 156, 30 + 8_400 * scale + 8, 216, "dashed")
    x = 30 + 8_400 * scale + 16
    d.box(x, 160, 1_820 * scale, 24, "own", "speed 0.5")
    d.box(x, 186, 2_184 * scale, 24, "own", "fares 0.5")
    d.text(
        30,
        250,
        "Bars are rows. The numbers are epsilons: they add up to at most 1 in each partition.",
        kind="soft",
    )
    return d


def guarantee() -> Drawing:
    """Chances of released counts, with and without one row."""
    d = Drawing(
        "What one row can change",
        "The chances of each released count for 100 and for 101 rows. Their ratio is at most 1.65 everywhere.",
        300,
    )
    ground, q = 230, math.exp(-0.5)
    seen = range(93, 109)
    for place, count in enumerate(seen):
        x = 40 + 36 * place
        for side, true, kind in ((0, 100, "own"), (14, 101, "public")):
            height = 700 * (1 - q) / (1 + q) * q ** abs(count - true)
            d.box(x + side, ground - height, 13, height, kind)
        d.text(x + 13, ground + 18, str(count), "middle", "ink small")
    d.line(30, ground, 625, ground)
    d.box(30, 20, 14, 14, "own")
    d.text(52, 32, "chance if 100 rows are there")
    d.box(30, 44, 14, 14, "public")
    d.text(52, 56, "chance if one more is there")
    d.text(
        20,
        272,
        "released count, epsilon 0.5. Beside each other, two bars differ by a factor of at",
        kind="soft",
    )
    d.text(20, 290, "most e^0.5 = 1.65: no count tells for sure whether the row was there.", kind="soft")
    return d


def limits() -> Drawing:
    """Show what is promised beside what is outside of it."""
    d = Drawing(
        "What is not protected",
        "What leaves the raw zone is protected. Insiders, facts about many, copies elsewhere and claims are not.",
        300,
    )
    d.box(20, 20, 190, 260, "private", "raw zone, key store", "trusted: whoever", "administers them")
    d.arrow(210, 150, 256, 150)
    d.text(233, 138, "noise", "middle", "soft small")
    d.box(260, 20, 160, 260, "public", "lake, Feast, catalog,", "logs, messages:", "protected, for ever")
    for place, text in enumerate(
        (
            "facts about many",
            "copies elsewhere",
            "claims of team code",
            "who sent a batch, when",
            "many rows of a person",
        )
    ):
        d.box(440, 20 + 53 * place, 184, 46, "none dashed", text)
    return d


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "ptk": ptk,
    "window": window,
    "block": block,
    "budget": budget,
    "allocation": allocation,
    "guarantee": guarantee,
    "not-protected": limits,
}
