"""What the runs of the resize benchmark come to: rows of medians, tables of them, and a verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.training.pauses import Pause

RIVAL, OURS = "torchrun", "swell"
#: How many times longer than ours the rival's pause shall be at least, by size of the model.
BARS = {"1M": 50, "25M": 20}
#: From a kill to the end of the next finished step, under Swell.
KILL_BAR_S = 1.5
#: How far what is expected of a resize may be from what is measured, from the second one of its kind on.
EXPECTED_WITHIN = 1.5


@dataclass(frozen=True)
class Row:
    """One change of one case under both sides, or under one if only that was run. Medians, in seconds."""

    size: str
    optimizer: str
    change: str
    is_kill: bool
    pause_s: Mapping[str, float]  #: by side
    to_next_step_s: Mapping[str, float]
    steady_step_s: Mapping[str, float]
    num_repeated: Mapping[str, float]  #: steps that were done again
    pauses: Mapping[str, Sequence[Pause]]  #: by side, one for each time

    @property
    def ratio(self) -> float | None:
        """How many times longer the rival's pause is; infinite if ours is none; None if one was not run."""
        if RIVAL not in self.pause_s or OURS not in self.pause_s:
            return None
        return self.pause_s[RIVAL] / self.pause_s[OURS] if self.pause_s[OURS] > 0 else math.inf


def row_of(
    size: str, optimizer: str, change: str, is_kill: bool, pauses: Mapping[str, Sequence[Pause]]
) -> Row:
    """`pauses`: by side, one for each time that the change was made."""

    def medians(field: str) -> dict[str, float]:
        return {
            side: statistics.median(getattr(one, field) for one in found) for side, found in pauses.items()
        }

    return Row(
        size,
        optimizer,
        change,
        is_kill,
        medians("pause_s"),
        medians("to_next_step_s"),
        medians("steady_step_s"),
        medians("num_repeated"),
        pauses,
    )


def table_of(rows: Sequence[Row]) -> Table:
    table = _table("model", "change")
    for head in (
        f"{RIVAL}\npause (s)",
        f"{OURS}\npause (s)",
        "times\nless",
        f"{RIVAL}\nnext step (s)",
        f"{OURS}\nnext step (s)",
        f"{OURS}\nsteady (s)",
        f"{RIVAL}\nsteps again",
    ):
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            f"{row.size} {row.optimizer}",
            row.change,
            _show(row.pause_s.get(RIVAL), 2),
            _show(row.pause_s.get(OURS), 3),
            _show(row.ratio, 0),
            _show(row.to_next_step_s.get(RIVAL), 2),
            _show(row.to_next_step_s.get(OURS), 2),
            _show(row.steady_step_s.get(OURS), 3),
            _show(row.num_repeated.get(RIVAL), 0),
        )
    return table


def joiners_table_of(rows: Sequence[Row]) -> Table:
    """What newcomers cost the group that trains while they get ready, in its own steps."""
    table = _table("model", "change")
    for head in ("steps slower (s)", "a step (s)", "steps lost"):
        table.add_column(head, justify="right")
    for row in rows:
        grown = [pause for pause in row.pauses.get(OURS, ()) if pause.old_step_s and not row.is_kill]
        if grown:
            slowed_s = statistics.median(pause.slowed_s for pause in grown)
            step_s = statistics.median(pause.old_step_s for pause in grown)
            lost = statistics.median(pause.slowed_s / pause.old_step_s for pause in grown)
            shown = _show(slowed_s, 3), _show(step_s, 3), _show(lost, 1)
            table.add_row(f"{row.size} {row.optimizer}", row.change, *shown)
    return table


def verdict_on(rows: Sequence[Row]) -> list[str]:
    """What was wanted and what came of it, a line each; nothing of what was not run."""
    lines = []
    for size, bar in BARS.items():
        ratios = [row.ratio for row in rows if row.size == size and row.ratio is not None]
        if ratios:
            lines.append(f"{size}: at least {bar} times less wanted, {min(ratios):.0f} times less measured")
        killed = [row.to_next_step_s[OURS] for row in rows if row.size == size and row.is_kill]
        if killed:
            lines.append(
                f"{size}: next step within {KILL_BAR_S:g} s of a kill wanted, {max(killed):.2f} s measured"
            )
    ours = [pause for row in rows for pause in row.pauses.get(OURS, ()) if pause.expected_s is not None]
    if ours:
        within = sum(_is_as_expected(pause) for pause in ours)
        lines.append(
            f"from the second resize of a kind on: expected within {EXPECTED_WITHIN:g} times of measured, "
            f"{within} of {len(ours)}"
        )
    return lines


def _is_as_expected(pause: Pause) -> bool:
    expected_s, least_s = pause.expected_s or 0.0, 1e-3  # a pause may be negative
    measured_s = max(pause.pause_s, least_s)
    return 1.0 / EXPECTED_WITHIN <= max(expected_s, least_s) / measured_s <= EXPECTED_WITHIN


def _table(*heads: str) -> Table:
    return Table(*heads, box=SIMPLE_HEAD)


def _show(value: float | None, num_digits: int) -> str:
    if value is None:
        return "-"
    return "all" if math.isinf(value) else f"{value:.{num_digits}f}"
