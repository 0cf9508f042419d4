"""The words of the console that a reader may not know, each with one explanation."""

from __future__ import annotations

import re
from typing import Final

GLOSSARY: Final = {
    "privacy unit": (
        "Whose presence is hidden: one row (record), a user's rows of one window (user-in-window), all rows of a user "
        "(user), or all rows of a device (device)."
    ),
    "block": (
        "A part of a window's rows with a privacy budget of its own. Each row is in exactly one block, so losses on "
        "different blocks do not add up."
    ),
    "window": "A span of event time. Its rows are trained on together, and expire together.",
    "epsilon": "The most that one privacy unit can change the odds of any output, as a natural logarithm.",
    "delta": "The probability with which the bound of epsilon may fail.",
    "local": (
        "Each device adds noise before it sends anything, so its loss holds towards the store as well. No block is "
        "charged, and the loss adds up with no loss of blocks."
    ),
    "spread": (
        "How far the copies of the model differ, over what is expected of them. With many weights it is nearly always "
        "from .3 to 3."
    ),
    "drift": "How far the model moved since the version before, over all of its weights.",
    "limit on drift": "How far honest reports may have moved the model. If it moved further, there is no version.",
    "spent": "Privacy loss of runs that opened rows. It never comes back.",
    "reserved": "Privacy loss that is promised to runs that have not opened rows yet.",
    "accountant": "The rule by which the losses on one block are added up.",
    "assurance": (
        "Why a privacy loss is believed. Library: it is proven for the library's own estimators. Asserted: it is the "
        "word of the team whose code was run."
    ),
    "least assurance": "What a PTK needs at least so that this stream accepts it.",
    "PTK": "Private transferable knowledge: a feature model that is trained with differential privacy.",
    "profile": "The part that is kept for measuring how many rows and how much epsilon a PTK needs.",
    "test": "The part that is kept for estimates of how good a version is. It is never trained on.",
    "train": "The part number {number} of those that PTKs are trained on. Each has the whole budget of a block.",
    "target": "The error that a PTK aims at, called tau.",
    "sent up to version": (
        "Later versions are still to be sent. Dead letters count as sent, and so do versions from before the "
        "subscription."
    ),
    "family": "The kind of model. TeamCode is code of the team's own.",
}
"""By the word as pages show it; `train` stands for train-0, train-1 and so on."""

_ANCHORS: Final = {
    "epsilon": "loss",
    "delta": "loss",
    "local": "local-guarantee",
    "spread": "average",
    "drift": "average",
    "limit on drift": "average",
    "spent": "spend",
    "reserved": "reservation",
    "least assurance": "assurance",
    "test": "part",
    "profile": "part",
    "sent up to version": "cursor",
}
"""Where the glossary of the documentation explains a word, if not under its own name."""

_TRAIN = re.compile(r"train-(\d+)")


def meaning(word: str) -> str:
    """Explain a word of the pages; return an empty text for one that is explained nowhere."""
    numbered = _TRAIN.fullmatch(word)
    if numbered:
        return GLOSSARY["train"].format(number=numbered[1])
    return "" if word == "train" else GLOSSARY.get(word, "")


def glossary_page(word: str) -> str:
    """Return the page with the section about a word of the pages, as errors name theirs; empty where there is none."""
    if not meaning(word):
        return ""
    anchor = "part" if _TRAIN.fullmatch(word) else _ANCHORS.get(word, word.lower().replace(" ", "-"))
    return f"docs/glossary.md#{anchor}"
