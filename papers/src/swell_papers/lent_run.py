"""A run on machines that are killed as a log of idle nodes says: played once, and told of again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from swell.model.errors import InvalidInput
from swell.settings import spell
from swell.sim.pool_file import read_pool
from swell_papers.bftrainer_inputs import POOL
from swell_papers.experiment import Context, keep_record, read_record
from swell_papers.findings import Findings
from swell_papers.lent_intervals import LentInterval, Window, compressed, drawn
from swell_papers.live_run import PlannedJob
from swell_papers.machines.first_process import NamespacesMissing
from swell_papers.reclaim_machines import PlayFailed, lent_machines, play
from swell_papers.reclaim_record import PlayOrder, Reclaimed, Told

Run = TypeVar("Run")
Word = TypeVar("Word", bound=Told)

#: Of the log: four hours in six minutes. Six nodes come and go, two or three are lent on average.
WINDOW = Window(
    num_nodes=6,
    from_s=160_000.0,
    length_s=14_400.0,
    times_faster=40.0,
    least_s=20.0,
    least_gap_s=15.0,
    apart_s=2.0,
    least_changes=2,
)
#: It charges starts. As printed, equal jobs take turns wherever one seems a percent faster, as chance has it.
POLICY = "bftrainer"
#: A host that is silent is given up after seven seconds. A job that has lost all its workers goes back five.
#: Several machines import torch at the same time on the cores of one.
SETTINGS: dict[str, float] = {
    "lease_s": 5.0,
    "lease_margin_s": 2.0,
    "checkpoint_interval_s": 5.0,
    "ready_s": 300.0,
    f"{POLICY}.corrected": 1.0,
    f"{POLICY}.t_fwd_s": 15.0,
    f"{POLICY}.max_trainers": 4.0,
}


class Lent(NamedTuple):
    """Which machines there were, and what was done to them."""

    source: str  #: of the intervals
    intervals: tuple[LentInterval, ...]
    reclaimed: tuple[Reclaimed, ...]


def told_of(
    context: Context,
    name: str,
    kind: type[Run],
    play_it: Callable[[Context], Run],
    findings_of: Callable[[str, Run], Findings],
) -> Findings:
    """Play, or read what was played before, and tell of it. Raises InvalidInput."""
    record = f"{name}-run"
    if context.played is not None:
        return findings_of(name, read_record(context.played, record, kind))
    run = play_it(context)
    if context.runs is not None:
        keep_record(run, context.runs, record)
    return findings_of(name, run)


def play_on_lent_nodes(
    context: Context,
    title: str,
    window: Window,
    devices: str,
    work: tuple[PlannedJob, ...],
    kind: type[Word],
) -> tuple[Lent, Word]:
    """Play jobs of a schedule on real machines that are lent in this window.

    Args:
        devices: of each node.
        kind: of the player's last word.

    Raises:
        InvalidInput: there can be no such machines here, or the platform or the player failed.
    """
    source, intervals = lent_nodes(context.data, context.seed, window)
    names = sorted({one.node for one in intervals})
    order = PlayOrder(
        work=work,
        num_nodes=len(names),
        first=frozenset(one.node for one in intervals if not one.start_s),
        played_s=window.played_s,
    )
    up = ["--policy", POLICY]
    for setting, value in SETTINGS.items():
        up += ["--set", f"{setting}={spell(value)}"]
    try:
        with (
            context.watch(title, int(window.played_s)) as advance,
            lent_machines(names, up, devices) as lent,
        ):
            ended, reclaimed = play(lent, order, intervals, advance, kind)
    except NamespacesMissing as error:
        raise InvalidInput(f"machines cannot be had here: {error}") from error
    except PlayFailed as error:
        raise InvalidInput(str(error)) from error
    return Lent(source, intervals, reclaimed), ended


def lent_nodes(data: Path, seed: int, window: Window = WINDOW) -> tuple[str, tuple[LentInterval, ...]]:
    """Where the intervals are from, and they; without the log they are drawn. Raises InvalidInput."""
    if not (data / POOL).exists():
        return f"drawn with seed {seed}, as there is no {POOL}", drawn(window, seed)
    source = f"{POOL} from {window.from_s:,.0f} s on, {window.times_faster:g} times as fast"
    return source, compressed(read_pool(data / POOL), window)
