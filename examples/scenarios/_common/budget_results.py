"""What the experiments of the budgeting paper found, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from _common.budget_models import Blocks, Learner
from _common.budget_pools import Pool
from _common.budget_trials import (
    KINDS,
    OFFLINE,
    OURS,
    OURS_2,
    POLICIES,
    SAGE,
    Setting,
    blocks_used,
    offline_and_online,
    queries_served,
    same_data,
)
from _common.intervals import shown
from _common.online_budgeting.replay import Grant
from ptklib.arrays import Floats
from ptkstore.domain.accounting.losses import NANO

SIZES = (1, 2, 4, 8)
CHOICES = ("most", "middle", "least", "random")
PIECES = (3, 6, 12, 24)
EPSILONS = (0.1, 0.2, 1.0)


@dataclass(frozen=True)
class Cell:
    """A number of a table: one value for each seed."""

    table: str
    pool: str
    kind: str
    column: str
    policy: str
    values: tuple[float, ...]

    def told(self, digits: int) -> str:
        """Return mean and interval."""
        return shown(self.values, f".{digits}f")


def cells(chosen: Setting, seeds: Sequence[int]) -> list[Cell]:
    """Return all cells of Tables II to V for a pool."""
    found: list[Cell] = []
    for kind in KINDS:
        add = _Adding(found, chosen.pool.name, kind)
        online = [offline_and_online(chosen, kind, seed) for seed in seeds]
        for policy in (OFFLINE, "online"):
            add("II", "quality", policy, [one[policy][0] for one in online])
            add("II", "significance", policy, [one[policy][1] for one in online])
        for column, is_warm in (("warm", True), ("fresh", False)):
            # A seed in which no block was given to any query says nothing.
            same = [one for seed in seeds if (one := same_data(chosen, kind, seed, is_warm=is_warm))]
            for policy in (OURS, SAGE):
                add("III", column, policy, [one[policy] for one in same])
        used = [blocks_used(chosen, kind, seed) for seed in seeds]
        served = [queries_served(chosen, kind, seed) for seed in seeds]
        for policy in POLICIES:
            if kind == "small" and policy == OURS_2:  # that is ours
                continue
            for query in range(chosen.tables["IV"][0]):
                add("IV", str(query + 1), policy, [one[policy][0][query] for one in used])
            add("IV", "accepted", policy, [one[policy][1] for one in used])
            for at, n_blocks in enumerate(chosen.tables["V"][2:]):
                column = f"{n_blocks * chosen.n_rows / 1e4:g}"
                add("V", column, policy, [one[policy][at] for one in served])
    return found


@dataclass(frozen=True)
class _Adding:
    cells: list[Cell]
    pool: str
    kind: str

    def __call__(self, table: str, column: str, policy: str, values: Sequence[float]) -> None:
        self.cells.append(Cell(table, self.pool, self.kind, column, policy, tuple(map(float, values))))


def tables(found: Sequence[Cell]) -> str:
    """Return the cells as Markdown tables, one for each table, pool and kind of costs."""
    lines: list[str] = []
    for key in dict.fromkeys((one.table, one.pool, one.kind) for one in found):
        mine = [one for one in found if (one.table, one.pool, one.kind) == key]
        columns = list(dict.fromkeys(one.column for one in mine))
        lines += [
            f"\nTable {key[0]}, {key[1]}, {key[2]} costs, {len(mine[0].values)} seeds",
            "| policy | " + " | ".join(columns) + " |",
            "|---" * (len(columns) + 1) + "|",
        ]
        for policy in dict.fromkeys(one.policy for one in mine):
            told = [one.told(_digits(one)) for one in mine if one.policy == policy]
            lines.append(f"| {policy} | " + " | ".join(told) + " |")
    return "\n".join(lines)


def _digits(cell: Cell) -> int:
    if cell.column in ("quality", "warm", "fresh"):
        return 3 if max(cell.values, default=1.0) > 0.3 else 4
    return 2 if cell.column in ("accepted", "significance") else 1


def by_significance(pool: Pool, n_blocks: int, n_rows: int, seeds: Sequence[int]) -> dict[str, Floats]:
    """Figure 3 (a) to (c): quality by the number of blocks, for blocks of most, middle and least significance.

    Returns an array of shape (n_sizes, n_seeds) for each choice; epsilon is .2 for each block.
    """
    found = {choice: np.zeros((len(SIZES), len(seeds))) for choice in CHOICES}
    for s, seed in enumerate(seeds):
        blocks = Blocks.drawn(pool, n_blocks, n_rows, seed)
        learner, draws = Learner(blocks), np.random.default_rng([seed, 3])
        for turn, task in enumerate(draws.permutation(pool.n_tasks)[:4]):
            worth = blocks.recency() if pool.in_time else blocks.significance(int(task))
            order = np.argsort(-worth, kind="stable")
            for k, size in enumerate(SIZES):
                middle = (n_blocks - size) // 2
                chosen = {
                    "most": order[:size],
                    "middle": order[middle : middle + size],
                    "least": order[-size:],
                    "random": draws.permutation(n_blocks)[:size],
                }
                for c, (choice, places) in enumerate(chosen.items()):
                    query = (turn * len(SIZES) + k) * len(CHOICES) + c
                    grants = [Grant(int(i), NANO // 5) for i in places]
                    found[choice][k, s] += learner.quality(query, int(task), grants) / min(4, pool.n_tasks)
    return found


def by_block_size(pool: Pool, n_rows: int, seeds: Sequence[int]) -> dict[float, Floats]:
    """Figure 3 (d) to (f): quality where as many rows are cut into more blocks, each with the same epsilon.

    Returns an array of shape (n_pieces, n_seeds) for each epsilon.
    """
    found = {epsilon: np.zeros((len(PIECES), len(seeds))) for epsilon in EPSILONS}
    for s, seed in enumerate(seeds):
        for m, pieces in enumerate(PIECES):
            blocks = Blocks.drawn(pool, pieces, n_rows // pieces, seed, spread=100.0)
            learner = Learner(blocks)
            tasks = np.random.default_rng([seed, 5]).permutation(pool.n_tasks)[:4]
            for e, epsilon in enumerate(EPSILONS):
                grants = [Grant(i, round(epsilon * NANO)) for i in range(pieces)]
                qualities = [
                    learner.quality(e * len(tasks) + t, int(task), grants) for t, task in enumerate(tasks)
                ]
                found[epsilon][m, s] = float(np.mean(qualities))
    return found


def record(found: Sequence[Cell]) -> list[dict[str, object]]:
    """Return cells as JSON values."""
    return [asdict(one) for one in found]
