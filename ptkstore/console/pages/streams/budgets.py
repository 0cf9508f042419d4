"""The budget of a stream's blocks as bars over time, in all or by PTK or team, and the room that is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ptkstore.application.ledger.loss_parts import MOST_ENTRIES, Party
from ptkstore.console.charts import PARTS_TOLD, budget_chart, part_colours
from ptkstore.console.pages.reads import Reads
from ptkstore.console.pages.shown import labelled
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action, Principal
from ptkstore.domain.ledger.odometers import LossPart
from ptkstore.domain.streams.blocks import BlockRange, groups_of, parts_of, stride_of
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from ptkstore.errors import NotAllowed

WINDOWS_SHOWN = 60
BLOCKS_MOST = 8_000
"""Lines of blocks that a page reads."""
CHARTS_MOST = 6
COUNTED_MOST = 500
"""PTKs of a stream beside which each look at its page counts the room that is left: some take a millisecond each."""
NAMES_SHOWN = 3

Parts = Mapping[tuple[int, str], tuple[LossPart, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """How the bars are asked for: the party that splits them, the part of the windows, and under which request."""

    by: Party | None
    part: str
    request_id: str

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]], request_id: str) -> Asked:
        """Read what is known of a query; anything else asks for nothing."""
        by = next((one for one in Party if [one.value] == query.get("by")), None)
        return cls(by, query.get("part", [""])[0], request_id)


def windows_shown(policy: Policy) -> int:
    """Return how many windows a page shows: fewer where each has many blocks."""
    if policy.privacy_unit is PrivacyUnit.USER or policy.on_devices:
        return WINDOWS_SHOWN
    lines = parts_of(policy) * groups_of(policy) * len(policy.lines)
    return max(1, min(WINDOWS_SHOWN, BLOCKS_MOST // lines))


class StreamBudgets(Reads):
    """What the blocks of a stream have lost."""

    def _budget(self, name: str, policy: Policy, first: int, below: int) -> list[dict[str, Any]]:
        """The lines of the blocks of some windows; of all users where blocks belong to no window."""
        blocks = _blocks(policy, first, below)
        if blocks is None:
            return []
        found = self._service.budget(name, after=blocks.lo - 1, limit=blocks.hi - blocks.lo)
        rows = labelled([one for one in found if one.number < blocks.hi], policy)
        (line, *_) = policy.lines  # rows name theirs where there are several
        return [{**row, "of_line": row.get("line", line)} for row in rows]

    def _parts(
        self, who: Principal, name: str, blocks: BlockRange | None, asked: Asked, *, may_export: bool
    ) -> Parts | None:
        """Who spent what of these blocks, for who may export the ledger; with a line of the trail, as an export has."""
        if asked.by is None:
            return None
        subject = subject_of("stream", name)
        if not may_export:
            refused = NotAllowed.code
            self._identity.record(Action.LEDGER_EXPORT, subject, asked.request_id, who, refused)
            return None
        if blocks is None:
            return {}
        with self._identity.recorded(Action.LEDGER_EXPORT, subject, asked.request_id, who):
            return self._service.loss_parts(name, blocks, asked.by)

    def _bars(
        self,
        who: Principal,
        name: str,
        policy: Policy,
        rows: Sequence[dict[str, Any]],
        windows: tuple[int, int],
        asked: Asked,
        *,
        may_export: bool,
    ) -> dict[str, Any]:
        """The bars of the page, with a table of the same numbers."""
        parts = self._parts(who, name, _blocks(policy, *windows), asked, may_export=may_export)
        told = _fullest(rows)
        kinds: dict[str, list[dict[str, Any]]] = {}
        for row in told:
            kinds.setdefault(row["kind"], []).append(row)
        touched = [kind for kind, some in kinds.items() if any(map(_lost, some))]
        untouched = [kind for kind in kinds if kind not in touched]
        touched.sort(key=lambda kind: (-max(map(_lost, kinds[kind])), kind))
        chosen = [kind for kind in kinds if asked.part == kind] or touched[:CHARTS_MOST]
        drawn = {kind: [_parts_of(row, parts) for row in kinds[kind]] for kind in chosen} if parts else {}
        colours = part_colours(some for split in drawn.values() for some in split)
        return {
            "by": asked.by.value if asked.by and parts is not None else "",
            "may_split": may_export,
            "too_many": MOST_ENTRIES if asked.by and may_export and parts is None else 0,
            "charts": {kind: budget_chart(kinds[kind], drawn.get(kind, ()), colours) for kind in chosen},
            "legend": [(one, colour) for one, colour in colours.items()],
            "others": PARTS_TOLD if _has_others(drawn, colours) else None,
            "untouched": untouched,
            "more_kinds": [kind for kind in touched if kind not in chosen],
            "only": asked.part if asked.part in kinds else "",
            "rows": [
                {**row, "split": _split(_parts_of(row, parts)) if parts else ""}
                for kind in chosen
                for row in kinds[kind]
            ],
            "adds_up": policy.accountant is Accountant.BASIC,
            "grouped": len(told) < len(rows),
            "n_blocks": len({row["block"] for row in rows}),
            "of_users": policy.privacy_unit is PrivacyUnit.USER,
        }

    def _room(self, who: Principal, name: str, policy: Policy, n_ptks: int) -> dict[str, Any] | None:
        """How many more PTKs like the last fit; of the reader's context where there are several."""
        if n_ptks > COUNTED_MOST and not policy.on_devices:
            says = f"The room left is not counted here, beside more than {COUNTED_MOST} PTKs."
            return {"says": says, "assumes": f"Ask for it by: ptk budget {name} --room", "ptk": ""}
        room = self._service.room_for_more(name, team=who.team if policy.sharing.contexts else None)
        return None if room is None else {"says": room.sentence, "assumes": room.assumes, "ptk": room.ptk_id}


def _blocks(policy: Policy, first: int, below: int) -> BlockRange | None:
    if policy.on_devices:
        return None
    if policy.privacy_unit is PrivacyUnit.USER:
        return BlockRange(0, parts_of(policy) * policy.user_shards)
    return BlockRange(first * stride_of(policy), below * stride_of(policy)) if below > first else None


def _fullest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the blocks of a window's part by attribute the one with the greatest loss; all others as they are.

    Its name then names the part, and its label the value.
    """
    fullest: dict[tuple[object, ...], dict[str, Any]] = {}
    for row in rows:
        key = row.get("window"), row.get("shard"), row["part"], row.get("line")
        before = fullest.get(key)
        if before is None or _lost(row) > _lost(before):
            fullest[key] = row
    return [
        {**row, "kind": ", ".join(word for word in (str(row["part"]), str(row.get("line", ""))) if word)}
        for row in fullest.values()
    ]


def _lost(row: Mapping[str, Any]) -> float:
    return float(row["spent_epsilon"]) + float(row["reserved_epsilon"])


def _parts_of(row: Mapping[str, Any], parts: Parts) -> tuple[LossPart, ...]:
    return parts.get((row["block"], row["of_line"]), ())


def _has_others(drawn: Mapping[str, Sequence[Sequence[LossPart]]], colours: Mapping[str, int]) -> bool:
    return any(one.name not in colours for split in drawn.values() for some in split for one in some)


def _split(parts: Sequence[LossPart]) -> str:
    """The largest parts of a block in words."""
    told = [f"{one.name} {one.alone.epsilon:g} ({one.share:.0%})" for one in parts[:NAMES_SHOWN]]
    more = len(parts) - len(told)
    return ", ".join([*told, *([f"{more} more"] if more else [])])
